#include "storage/far_place.hpp"

#include "storage/numbered.hpp"

#include <tuple>

namespace openduck {

static Numbered<FarPlace> places;

bool FarPlace::operator==(const FarPlace &other) const {
	auto all = [](const FarPlace &p) {
		return std::tie(p.url, p.tier, p.keep_bytes, p.endpoint, p.region, p.key_id, p.secret, p.session_token,
		                p.virtual_host);
	};
	return all(*this) == all(other);
}

static void Add(string &value, const char *from) {
	if (value.empty() && from) {
		value = from;
	}
}

void FarPlace::AddEnvironment() {
	od_storage_options found = {};
	od_storage_options_from_environment(&found);
	Add(url, found.blob_url);
	Add(endpoint, found.s3_endpoint);
	Add(region, found.s3_region);
	if (key_id.empty()) {
		Add(key_id, found.s3_key);
		Add(secret, found.s3_secret);
		Add(session_token, found.s3_session);
	}
}

void FarPlace::Fill(od_storage_options &options) const {
	auto text = [](const string &value) {
		return value.empty() ? nullptr : value.c_str();
	};
	options.blob_url = text(url);
	options.tier = tier;
	options.keep_bytes = keep_bytes;
	options.s3_endpoint = text(endpoint);
	options.s3_region = text(region);
	options.s3_key = text(key_id);
	options.s3_secret = text(secret);
	options.s3_session = text(session_token);
	options.s3_virtual_host = virtual_host;
}

idx_t FarPlace::Number() const {
	return url.empty() ? 0 : places.NumberOf(*this);
}

bool FarPlace::Find(idx_t number, FarPlace &result) {
	return places.Find(number, result);
}

} // namespace openduck
