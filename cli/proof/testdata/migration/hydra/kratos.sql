CREATE TABLE public.identities (
    id uuid NOT NULL,
    schema_id character varying(2048) NOT NULL,
    traits jsonb NOT NULL,
    created_at timestamp without time zone NOT NULL,
    updated_at timestamp without time zone NOT NULL,
    nid uuid,
    state character varying(255) DEFAULT 'active'::character varying NOT NULL,
    state_changed_at timestamp without time zone,
    metadata_public jsonb,
    metadata_admin jsonb,
    available_aal character varying(4),
    organization_id uuid
);
CREATE TABLE public.identity_credential_identifiers (
    id uuid NOT NULL,
    identifier character varying(255) NOT NULL,
    identity_credential_id uuid NOT NULL,
    created_at timestamp without time zone NOT NULL,
    updated_at timestamp without time zone NOT NULL,
    nid uuid,
    identity_credential_type_id uuid NOT NULL
);
CREATE TABLE public.identity_credential_types (
    id uuid NOT NULL,
    name character varying(32) NOT NULL
);
CREATE TABLE public.identity_credentials (
    id uuid NOT NULL,
    config jsonb NOT NULL,
    identity_credential_type_id uuid NOT NULL,
    identity_id uuid NOT NULL,
    created_at timestamp without time zone NOT NULL,
    updated_at timestamp without time zone NOT NULL,
    nid uuid,
    version integer DEFAULT 0 NOT NULL
);
CREATE TABLE public.networks (
    id uuid NOT NULL,
    created_at timestamp without time zone NOT NULL,
    updated_at timestamp without time zone NOT NULL
);
INSERT INTO public.identities VALUES ('aaaaaaaa-0000-4000-8000-000000000001', 'default', '{"email": "odile@larkspur.example", "username": "odile"}', '2026-01-05 10:00:00', '2026-01-05 10:00:00', '11111111-1111-4111-8111-111111111111', 'active', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.identities VALUES ('aaaaaaaa-0000-4000-8000-000000000002', 'default', '{"email": null, "username": "bertille"}', '2026-01-05 10:00:00', '2026-01-05 10:00:00', '11111111-1111-4111-8111-111111111111', 'active', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.identities VALUES ('aaaaaaaa-0000-4000-8000-000000000003', 'default', '{"email": null, "username": "gone"}', '2026-01-05 10:00:00', '2026-01-05 10:00:00', '11111111-1111-4111-8111-111111111111', 'inactive', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.identities VALUES ('aaaaaaaa-0000-4000-8000-000000000004', 'default', '{"email": null, "username": null}', '2026-01-05 10:00:00', '2026-01-05 10:00:00', '11111111-1111-4111-8111-111111111111', 'active', NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.identity_credential_identifiers VALUES ('539e8ff7-d81d-4901-9f94-e5f1177e8d42', 'odile', 'aaaaaaaa-0000-4000-8000-000000000001', '2026-01-05 00:00:00', '2026-01-05 00:00:00', '11111111-1111-4111-8111-111111111111', '78c1b41d-8341-4507-aa60-aff1d4369670');
INSERT INTO public.identity_credential_identifiers VALUES ('32202883-0fb9-47e6-afd6-08fc2f47bd8e', 'bertille', 'aaaaaaaa-0000-4000-8000-000000000002', '2026-01-05 00:00:00', '2026-01-05 00:00:00', '11111111-1111-4111-8111-111111111111', '78c1b41d-8341-4507-aa60-aff1d4369670');
INSERT INTO public.identity_credential_identifiers VALUES ('879009a8-254f-49c6-91a1-0f19cf9d8d01', 'gone', 'aaaaaaaa-0000-4000-8000-000000000003', '2026-01-05 00:00:00', '2026-01-05 00:00:00', '11111111-1111-4111-8111-111111111111', '78c1b41d-8341-4507-aa60-aff1d4369670');
INSERT INTO public.identity_credential_identifiers VALUES ('1b546806-e680-4b2b-be13-0dff79dfc8aa', 'odile@larkspur.example', 'aaaaaaaa-0000-4000-8000-000000000001', '2026-01-05 00:00:00', '2026-01-05 00:00:00', '11111111-1111-4111-8111-111111111111', '78c1b41d-8341-4507-aa60-aff1d4369670');
INSERT INTO public.identity_credential_identifiers VALUES ('f9f3e967-4658-4a14-a51b-2dee672838c8', 'google:42', 'bbbbbbbb-0000-4000-8000-000000000004', '2026-01-05 00:00:00', '2026-01-05 00:00:00', '11111111-1111-4111-8111-111111111111', '6fa5e2e0-bfce-4631-b62b-cf2b0252b289');
INSERT INTO public.identity_credential_types VALUES ('78c1b41d-8341-4507-aa60-aff1d4369670', 'password');
INSERT INTO public.identity_credential_types VALUES ('6fa5e2e0-bfce-4631-b62b-cf2b0252b289', 'oidc');
INSERT INTO public.identity_credential_types VALUES ('5e29b036-aa47-457f-9fe6-aa8b854a752b', 'totp');
INSERT INTO public.identity_credential_types VALUES ('567a0730-7f48-4dd7-a13d-df87a51c245f', 'lookup_secret');
INSERT INTO public.identity_credential_types VALUES ('6b213fa0-e6ad-46cb-8878-b088d2ce2e3c', 'webauthn');
INSERT INTO public.identity_credential_types VALUES ('14f3b7e2-8725-4068-be39-8a796485fd97', 'code');
INSERT INTO public.identity_credential_types VALUES ('8d0ca544-9bf6-45d3-bd75-0bbb3aeba3c7', 'passkey');
INSERT INTO public.identity_credentials VALUES ('aaaaaaaa-0000-4000-8000-000000000001', '{"hashed_password": "$2a$10$1X02FbswIJXhH9cbj5svjut.pWmWu7z4kjkaQ1lRDZmFlXaYi4zYS"}', '78c1b41d-8341-4507-aa60-aff1d4369670', 'aaaaaaaa-0000-4000-8000-000000000001', '2026-01-05 10:00:00', '2026-01-05 10:00:00', '11111111-1111-4111-8111-111111111111', 0);
INSERT INTO public.identity_credentials VALUES ('aaaaaaaa-0000-4000-8000-000000000002', '{"hashed_password": "$argon2id$v=19$m=131072,t=1,p=2$MDEyMzQ1Njc4OWFiY2RlZg$QyiGUCPeBzvuM0Jo8WMQJw1aMG5/MQ+Y+G/lCC47bgc"}', '78c1b41d-8341-4507-aa60-aff1d4369670', 'aaaaaaaa-0000-4000-8000-000000000002', '2026-01-05 10:00:00', '2026-01-05 10:00:00', '11111111-1111-4111-8111-111111111111', 0);
INSERT INTO public.identity_credentials VALUES ('aaaaaaaa-0000-4000-8000-000000000003', '{"hashed_password": "$2a$10$1X02FbswIJXhH9cbj5svjut.pWmWu7z4kjkaQ1lRDZmFlXaYi4zYS"}', '78c1b41d-8341-4507-aa60-aff1d4369670', 'aaaaaaaa-0000-4000-8000-000000000003', '2026-01-05 10:00:00', '2026-01-05 10:00:00', '11111111-1111-4111-8111-111111111111', 0);
INSERT INTO public.identity_credentials VALUES ('bbbbbbbb-0000-4000-8000-000000000004', '{"providers": []}', '6fa5e2e0-bfce-4631-b62b-cf2b0252b289', 'aaaaaaaa-0000-4000-8000-000000000004', '2026-01-05 00:00:00', '2026-01-05 00:00:00', '11111111-1111-4111-8111-111111111111', 0);
INSERT INTO public.networks VALUES ('11111111-1111-4111-8111-111111111111', '2026-01-05 00:00:00', '2026-01-05 00:00:00');
ALTER TABLE ONLY public.identities
    ADD CONSTRAINT identities_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.identity_credential_identifiers
    ADD CONSTRAINT identity_credential_identifiers_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.identity_credential_types
    ADD CONSTRAINT identity_credential_types_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.identity_credentials
    ADD CONSTRAINT identity_credentials_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.networks
    ADD CONSTRAINT networks_pkey PRIMARY KEY (id);
CREATE INDEX identities_id_nid_idx ON public.identities USING btree (id, nid);
CREATE INDEX identities_nid_id_idx ON public.identities USING btree (nid, id);
CREATE INDEX identity_credential_identifiers_id_nid_idx ON public.identity_credential_identifiers USING btree (id, nid);
CREATE UNIQUE INDEX identity_credential_identifiers_identifier_nid_type_uq_idx ON public.identity_credential_identifiers USING btree (nid, identity_credential_type_id, identifier);
CREATE INDEX identity_credential_identifiers_nid_i_ici_idx ON public.identity_credential_identifiers USING btree (nid, identifier, identity_credential_id);
CREATE INDEX identity_credential_identifiers_nid_id_idx ON public.identity_credential_identifiers USING btree (nid, id);
CREATE INDEX identity_credential_identifiers_nid_identity_credential_id_idx ON public.identity_credential_identifiers USING btree (identity_credential_id, nid);
CREATE UNIQUE INDEX identity_credential_types_name_idx ON public.identity_credential_types USING btree (name);
CREATE INDEX identity_credentials_id_nid_idx ON public.identity_credentials USING btree (id, nid);
CREATE INDEX identity_credentials_nid_id_idx ON public.identity_credentials USING btree (nid, id);
CREATE INDEX identity_credentials_nid_identity_id_idx ON public.identity_credentials USING btree (identity_id, nid);
ALTER TABLE ONLY public.identities
    ADD CONSTRAINT identities_nid_fk_idx FOREIGN KEY (nid) REFERENCES public.networks(id) ON UPDATE RESTRICT ON DELETE CASCADE;
ALTER TABLE ONLY public.identity_credential_identifiers
    ADD CONSTRAINT identity_credential_identifiers_identity_credential_id_fkey FOREIGN KEY (identity_credential_id) REFERENCES public.identity_credentials(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.identity_credential_identifiers
    ADD CONSTRAINT identity_credential_identifiers_nid_fk_idx FOREIGN KEY (nid) REFERENCES public.networks(id) ON UPDATE RESTRICT ON DELETE CASCADE;
ALTER TABLE ONLY public.identity_credential_identifiers
    ADD CONSTRAINT identity_credential_identifiers_type_id_fk_idx FOREIGN KEY (identity_credential_type_id) REFERENCES public.identity_credential_types(id) ON UPDATE RESTRICT ON DELETE CASCADE;
ALTER TABLE ONLY public.identity_credentials
    ADD CONSTRAINT identity_credentials_identity_credential_type_id_fkey FOREIGN KEY (identity_credential_type_id) REFERENCES public.identity_credential_types(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.identity_credentials
    ADD CONSTRAINT identity_credentials_identity_id_fkey FOREIGN KEY (identity_id) REFERENCES public.identities(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.identity_credentials
    ADD CONSTRAINT identity_credentials_nid_fk_idx FOREIGN KEY (nid) REFERENCES public.networks(id) ON UPDATE RESTRICT ON DELETE CASCADE;
