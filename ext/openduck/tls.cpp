#include "openduck/tls.hpp"

#include "common/throw.hpp"

namespace openduck {

static string FromVariable(const char *name) {
	auto value = std::getenv(name); // NOLINT: read while a statement runs, never written
	return value ? value : "";
}

TlsFiles TlsFiles::FromEnvironment() {
	TlsFiles result;
	result.ca = FromVariable("OPENDUCK_TLS_CA");
	result.cert = FromVariable("OPENDUCK_TLS_CERT");
	result.key = FromVariable("OPENDUCK_TLS_KEY");
	return result;
}

void SetTls(od_remote_options &options, const TlsFiles &files) {
	if (!options.endpoint.tls) {
		return;
	}
	od_tls_files paths = {};
	paths.ca = files.ca.c_str();
	paths.cert = files.cert.c_str();
	paths.key = files.key.c_str();
	od_error err = {};
	if (od_tls_create_client(&paths, &options.tls, &err) != OD_OK) {
		ThrowError(err);
	}
}

} // namespace openduck
