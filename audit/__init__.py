"""From Kafka to ClickHouse: migrations, the writer, and the views from which recovery is measured. Nothing here is fed back."""
