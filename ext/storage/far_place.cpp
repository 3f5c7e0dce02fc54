#include "storage/far_place.hpp"

#include <tuple>

namespace openduck {

//! Those that paths have numbers for: of the process, since DuckDB compares the paths of all its instances.
static mutex places_lock;
static vector<FarPlace> places;

static bool IsSame(const FarPlace &a, const FarPlace &b) {
	auto all = [](const FarPlace &p) {
		return std::tie(p.url, p.tier, p.keep_bytes, p.endpoint, p.region, p.key_id, p.secret, p.session_token,
		                p.virtual_host);
	};
	return all(a) == all(b);
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
	if (url.empty()) {
		return 0;
	}
	lock_guard<mutex> guard(places_lock);
	for (idx_t i = 0; i < places.size(); i++) {
		if (IsSame(places[i], *this)) {
			return i + 1;
		}
	}
	places.push_back(*this);
	return places.size();
}

bool FarPlace::Find(idx_t number, FarPlace &result) {
	lock_guard<mutex> guard(places_lock);
	if (number == 0 || number > places.size()) {
		return false;
	}
	result = places[number - 1];
	return true;
}

} // namespace openduck
