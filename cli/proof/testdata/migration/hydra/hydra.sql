CREATE TABLE public.hydra_client (
    id character varying(255) NOT NULL,
    client_name text NOT NULL,
    client_secret text NOT NULL,
    scope text NOT NULL,
    owner text NOT NULL,
    policy_uri text NOT NULL,
    tos_uri text NOT NULL,
    client_uri text NOT NULL,
    logo_uri text NOT NULL,
    client_secret_expires_at integer DEFAULT 0 NOT NULL,
    sector_identifier_uri text NOT NULL,
    jwks text NOT NULL,
    jwks_uri text NOT NULL,
    token_endpoint_auth_method character varying(25) DEFAULT ''::character varying NOT NULL,
    request_object_signing_alg character varying(10) DEFAULT ''::character varying NOT NULL,
    userinfo_signed_response_alg character varying(10) DEFAULT ''::character varying NOT NULL,
    subject_type character varying(15) DEFAULT ''::character varying NOT NULL,
    pk_deprecated integer NOT NULL,
    created_at timestamp without time zone DEFAULT now() NOT NULL,
    updated_at timestamp without time zone DEFAULT now() NOT NULL,
    frontchannel_logout_uri text DEFAULT ''::text NOT NULL,
    frontchannel_logout_session_required boolean DEFAULT false NOT NULL,
    backchannel_logout_uri text DEFAULT ''::text NOT NULL,
    backchannel_logout_session_required boolean DEFAULT false NOT NULL,
    metadata text NOT NULL,
    token_endpoint_auth_signing_alg character varying(10) DEFAULT ''::character varying NOT NULL,
    authorization_code_grant_access_token_lifespan bigint,
    authorization_code_grant_id_token_lifespan bigint,
    authorization_code_grant_refresh_token_lifespan bigint,
    client_credentials_grant_access_token_lifespan bigint,
    implicit_grant_access_token_lifespan bigint,
    implicit_grant_id_token_lifespan bigint,
    jwt_bearer_grant_access_token_lifespan bigint,
    password_grant_access_token_lifespan bigint,
    password_grant_refresh_token_lifespan bigint,
    refresh_token_grant_id_token_lifespan bigint,
    refresh_token_grant_access_token_lifespan bigint,
    refresh_token_grant_refresh_token_lifespan bigint,
    pk uuid,
    registration_access_token_signature character varying(128) DEFAULT ''::character varying NOT NULL,
    nid uuid NOT NULL,
    redirect_uris jsonb NOT NULL,
    grant_types jsonb NOT NULL,
    response_types jsonb NOT NULL,
    audience jsonb NOT NULL,
    allowed_cors_origins jsonb NOT NULL,
    contacts jsonb NOT NULL,
    request_uris jsonb NOT NULL,
    post_logout_redirect_uris jsonb DEFAULT '[]'::jsonb NOT NULL,
    access_token_strategy character varying(10) DEFAULT ''::character varying NOT NULL,
    skip_consent boolean DEFAULT false NOT NULL,
    skip_logout_consent boolean
);
CREATE SEQUENCE public.hydra_client_pk_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.hydra_client_pk_seq OWNED BY public.hydra_client.pk_deprecated;
CREATE TABLE public.networks (
    id uuid NOT NULL,
    created_at timestamp without time zone NOT NULL,
    updated_at timestamp without time zone NOT NULL
);
ALTER TABLE ONLY public.hydra_client ALTER COLUMN pk_deprecated SET DEFAULT nextval('public.hydra_client_pk_seq'::regclass);
INSERT INTO public.hydra_client VALUES ('books', 'Larkspur Bookkeeping', '$pbkdf2-sha256$i=25000,l=32$51rnBir87pO9OT27y/tUGg$OSGLP6p2FNJ1bO9+hDcQQz7bg1AERG8EE7sD/pXAC44', 'openid offline orders events:read', '', '', '', '', '', 0, '', '{}', '', 'client_secret_post', '', 'none', 'public', 0, '2026-11-27 08:56:40', '2026-11-27 08:56:39.813281', '', false, '', false, '{}', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'q9QQ623dN6Tl0QAmZKTTStUcvVuivzV3w2IvY4N8O2A', '1e23a8ed-81e0-4dd9-890d-df298525af62', '["https://books.example/callback", "http://127.0.0.1/callback"]', '["authorization_code", "refresh_token", "password"]', '[]', '[]', '[]', '[]', '[]', '[]', '', false, NULL);
INSERT INTO public.hydra_client VALUES ('phone', 'Till', '$pbkdf2-sha256$i=25000,l=32$vxKLMv9Cx4hGUECIFNJUGQ$HSExoT/Hco6eRt7MJ6sexTzo4Sjw+NYS4q4kJeM7ZXE', 'orders', '', '', '', '', '', 0, '', '{}', '', 'none', '', 'none', 'public', 0, '2026-11-27 08:56:40', '2026-11-27 08:56:39.862459', '', false, '', false, '{}', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'QegY3cExOs0eFEJZrM7TC9lXTO6iRpG1CvQqHrUwydQ', '1e23a8ed-81e0-4dd9-890d-df298525af62', '["com.example.till:/callback"]', '["authorization_code", "refresh_token", "implicit"]', '[]', '[]', '[]', '[]', '[]', '[]', '', false, NULL);
INSERT INTO public.hydra_client VALUES ('105187f3-bbcf-49e1-88f5-c3599b7bbc89', 'night job', '$pbkdf2-sha256$i=25000,l=32$Mla4cnqZV0xreBtECK8hvQ$6NOnrbKaWL3/tpDDq2160RmBMf/6M5Yx5i/m3YG8tsQ', 'orders', '', '', '', '', '', 0, '', '{}', '', 'client_secret_basic', '', 'none', 'public', 0, '2026-11-27 08:56:40', '2026-11-27 08:56:39.915965', '', false, '', false, '{}', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '3eKlwg5BXlr_7ccP7zf_eEJ8XjJ2lMPBVEmuRoYxm1M', '1e23a8ed-81e0-4dd9-890d-df298525af62', '[]', '["client_credentials"]', '[]', '[]', '[]', '[]', '[]', '[]', '', false, NULL);
INSERT INTO public.hydra_client VALUES ('signed', 'signed', '$pbkdf2-sha256$i=25000,l=32$QywxTYofHOa7Xy2j/4d1xA$bTkT7OOrJx5EaYBsiRV6zYAZbpU849I2ZBv2qdcrHVY', 'orders', '', '', '', '', '', 0, '', '{}', 'https://signed.example/jwks', 'private_key_jwt', '', 'none', 'public', 0, '2026-11-27 08:56:40', '2026-11-27 08:56:40.017897', '', false, '', false, '{}', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'OoQzBGRjh5lEVGMOgC5eGVAWj18Xl8RsrDS-hf2eynw', '1e23a8ed-81e0-4dd9-890d-df298525af62', '["https://signed.example/callback"]', '["authorization_code"]', '[]', '[]', '[]', '[]', '[]', '[]', '', false, NULL);
INSERT INTO public.hydra_client VALUES ('stranger', '', '$pbkdf2-sha256$i=25000,l=32$+lZfXJXFZYy1DJmo1JLInQ$8NqHT/uBXtf0EHXmCgDVxii2y9pqXH9f2nx+U9zHLhw', 'openid', '', '', '', '', '', 0, '', '{}', '', 'client_secret_basic', '', 'none', 'public', 0, '2026-11-27 08:56:40', '2026-11-27 08:56:40.107268', '', false, '', false, '{}', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'gjOdFT9FPA3oFNP7sHZ5zZW_38KEsXgXxufF9OpXZZc', '1e23a8ed-81e0-4dd9-890d-df298525af62', '["https://stranger.example/callback"]', '["authorization_code"]', '[]', '[]', '[]', '[]', '[]', '[]', '', false, NULL);
INSERT INTO public.networks VALUES ('1e23a8ed-81e0-4dd9-890d-df298525af62', '2013-10-07 08:23:19', '2013-10-07 08:23:19');
ALTER TABLE ONLY public.hydra_client
    ADD CONSTRAINT hydra_client_pkey PRIMARY KEY (id, nid);
ALTER TABLE ONLY public.networks
    ADD CONSTRAINT networks_pkey PRIMARY KEY (id);
CREATE UNIQUE INDEX hydra_client_idx_id_uq ON public.hydra_client USING btree (id, nid);
ALTER TABLE ONLY public.hydra_client
    ADD CONSTRAINT hydra_client_nid_fk_idx FOREIGN KEY (nid) REFERENCES public.networks(id) ON UPDATE RESTRICT ON DELETE CASCADE;
