"""From private data to a student model: data sets, teachers and students."""
