"""Files written whole or not at all and read with suspicion, frozen values that survive them, compiled code on disk."""
