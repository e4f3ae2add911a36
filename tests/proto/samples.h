/*
 * samples - one message of every type, with every field set and no field at its default.
 */
#ifndef SC_TESTS_PROTO_SAMPLES_H
#define SC_TESTS_PROTO_SAMPLES_H

#include "base/status.h"
#include "proto/messages.h"

/* The sample of a type; everything it points to is static. */
sc_msg samples_get(sc_msg_type type);

#endif
