"""What turns official files of pictures, texts and graphs into federations."""
