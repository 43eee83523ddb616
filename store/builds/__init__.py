"""What a build needs beside its projections: its candidate, its journal, its workers, its hour."""
