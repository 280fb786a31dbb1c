-- What the sessions of the demo work on; made by `deploy`, which owns the database.
CREATE TABLE subscribers (id int PRIMARY KEY, digest_sent_at timestamptz);
INSERT INTO subscribers SELECT generate_series(1, 150);

-- Stands for a mail server, and is as slow.
CREATE FUNCTION send_digest(subscriber int) RETURNS timestamptz LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_sleep(0.05);
    RETURN clock_timestamp();
END $$;

CREATE TABLE articles (id int PRIMARY KEY, body text NOT NULL);
INSERT INTO articles SELECT number, 'Article ' || number FROM generate_series(1, 200) AS number;

CREATE TABLE invoices (id int PRIMARY KEY, closed boolean NOT NULL DEFAULT false);
INSERT INTO invoices SELECT generate_series(1, 400);

CREATE TABLE exports (id int GENERATED ALWAYS AS IDENTITY, finished_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE payouts (id int PRIMARY KEY, amount numeric NOT NULL);
CREATE TABLE prices (article int PRIMARY KEY, price numeric NOT NULL);
CREATE TABLE schema_migrations (version bigint PRIMARY KEY, dirty boolean NOT NULL);

GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC;
