CREATE DATABASE IF NOT EXISTS gua $ON_CLUSTER_DATABASE $DATABASE_ENGINE
COMMENT 'gpu-usage-audit: what GPUs did, and the views that count it'
