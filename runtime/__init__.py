"""What every process needs: settings, Kafka clients, logs, health and metrics."""
