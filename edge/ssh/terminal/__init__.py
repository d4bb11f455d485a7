"""What SSH clients see in their terminals."""
