"""The local disk: objects under a prefix become files in a private directory, changes there become uploads and deletes."""
