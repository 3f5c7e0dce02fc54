#include "storage/location.hpp"

#include "storage/numbered.hpp"
#include "storage/secret.hpp"

#include "openduck/storage.h"

#include "duckdb/common/exception/binder_exception.hpp"
#include "duckdb/common/file_system.hpp"
#include "duckdb/common/string_util.hpp"

#include <cstdlib>

namespace openduck {

static constexpr const char *LOG_SUFFIXES[] = {".wal", ".wal.checkpoint", ".wal.recovery"};

bool StorageLocation::IsOne(const string &path) {
	return StringUtil::StartsWith(path, SCHEME);
}

static constexpr const char *SQLITE = "sqlite";
static constexpr const char *POSTGRES = "postgres-";

static Numbered<string> postgres_urls;

static string MetadataOf(const string &postgres_url) {
	return POSTGRES + to_string(postgres_urls.NumberOf(postgres_url));
}

string StorageLocation::PostgresUrl() const {
	string result;
	if (StringUtil::StartsWith(metadata, POSTGRES)) {
		auto number = std::strtoul(metadata.c_str() + strlen(POSTGRES), nullptr, 10);
		if (metadata == POSTGRES + to_string(number)) {
			postgres_urls.Find(number, result);
		}
	}
	return result;
}

static uint32_t ParseLease(const string &value) {
	char *end = nullptr;
	auto number = std::strtoul(value.c_str(), &end, 10);
	if (value.empty() || !StringUtil::CharacterIsDigit(value[0]) || *end != '\0' || number < 100 || number > 3600000) {
		throw BinderException("openduck://: lease_ms is 100 to 3600000, not '%s'", value);
	}
	return uint32_t(number);
}

//! When external access is switched off DuckDB allows the logs of what is attached by their names, and makes these by a suffix at the very
//! end of the path.
static void ReadMetadata(StorageLocation &location, const string &value) {
	location.metadata = value;
	for (auto suffix : LOG_SUFFIXES) {
		if (StringUtil::EndsWith(value, suffix)) {
			location.metadata = value.substr(0, value.size() - strlen(suffix));
			location.file += suffix;
			return;
		}
	}
}

static void ParseParameter(StorageLocation &location, const string &text) {
	auto equals = text.find('=');
	auto key = text.substr(0, equals);
	auto value = equals == string::npos ? string() : StringUtil::URLDecode(text.substr(equals + 1));
	if (value.empty()) {
		throw BinderException("openduck://: '%s' has no value", key);
	}
	if (key == "data_dir") {
		location.data_dir = value;
	} else if (key == "snapshot") {
		location.snapshot = value;
	} else if (key == "secret") {
		location.secret = value;
	} else if (key == "metadata") {
		ReadMetadata(location, value);
	} else if (key == "blob_url") {
		location.blob_url = value;
	} else if (key == "far") {
		FarPlace place;
		location.far = std::strtoul(value.c_str(), nullptr, 10);
		if (!FarPlace::Find(location.far, place)) {
			throw BinderException("openduck://: far is what duckdb_databases() shows; write blob_url=URL");
		}
	} else if (key == "lease_ms") {
		location.lease_ms = ParseLease(value);
	} else if (key == "state" && (value == "sealed" || value == "synced")) {
		location.state = value;
	} else if (key == "state") {
		throw BinderException("openduck://: state is sealed or synced, not '%s'", value);
	} else {
		throw BinderException("openduck://: unknown parameter '%s'; data_dir, metadata, blob_url, snapshot, state, "
		                      "lease_ms and secret are "
		                      "known",
		                      key);
	}
}

StorageLocation StorageLocation::Parse(const string &path) {
	StorageLocation result;
	auto text = path.substr(strlen(SCHEME));
	auto question = text.find('?');
	auto name = text.substr(0, question);
	auto slash = name.find('/');
	if (slash != string::npos && slash + 1 < name.size()) {
		result.file = StringUtil::URLDecode(name.substr(slash + 1));
	}
	result.database = StringUtil::URLDecode(name.substr(0, slash));
	if (result.database.empty()) {
		throw BinderException("'%s' names no database: write 'openduck://NAME'", path);
	}
	if (question != string::npos) {
		for (auto &parameter : StringUtil::Split(text.substr(question + 1), '&')) {
			ParseParameter(result, parameter);
		}
	}
	if (!result.metadata.empty() && result.metadata != SQLITE && result.PostgresUrl().empty()) {
		throw BinderException(
		    "openduck://: metadata is sqlite, or what duckdb_databases() shows; the URL of a PostgreSQL belongs into a "
		    "secret or OPENDUCK_POSTGRES_URL");
	}
	if (!result.state.empty() && !result.snapshot.empty()) {
		throw BinderException("openduck://: a snapshot and a state cannot be asked for together");
	}
	return result;
}

bool StorageLocation::MayBeMade() const {
	if (IsMain()) {
		return true;
	}
	for (auto suffix : LOG_SUFFIXES) {
		if (file == string(MAIN_FILE) + suffix) {
			return true;
		}
	}
	return false;
}

string StorageLocation::Name() const {
	auto result = SCHEME + StringUtil::URLEncode(database);
	if (!snapshot.empty()) {
		result += "?snapshot=" + snapshot;
	} else if (!state.empty()) {
		result += "?state=" + state;
	}
	return result;
}

static string PathOf(const StorageLocation &location, const string &file) {
	auto result =
	    StorageLocation::SCHEME + StringUtil::URLEncode(location.database) + "/" + StringUtil::URLEncode(file);
	auto add = [&result](const string &key, const string &value) {
		result += (result.find('?') == string::npos ? "?" : "&") + key + "=" + value;
	};
	if (!location.data_dir.empty()) {
		add("data_dir", StringUtil::URLEncode(location.data_dir, false));
	}
	if (!location.snapshot.empty()) {
		add("snapshot", StringUtil::URLEncode(location.snapshot));
	}
	if (!location.state.empty()) {
		add("state", location.state);
	}
	if (location.lease_ms != 0) {
		add("lease_ms", to_string(location.lease_ms));
	}
	if (!location.secret.empty()) {
		add("secret", StringUtil::URLEncode(location.secret));
	}
	if (!location.blob_url.empty()) {
		add("blob_url", StringUtil::URLEncode(location.blob_url, false));
	}
	if (location.far != 0) {
		add("far", to_string(location.far));
	}
	// The last one: see ReadMetadata.
	if (!location.metadata.empty()) {
		add("metadata", location.metadata);
	}
	return result;
}

string StorageLocation::Path() const {
	return PathOf(*this, file);
}

string StorageLocation::VolumePath() const {
	return PathOf(*this, MAIN_FILE);
}

//! Absolute, without links as far as it exists.
static string AbsoluteDirectory(const string &directory, optional_ptr<FileOpener> opener) {
	auto expanded = FileSystem::ExpandPath(directory, opener);
	if (!StringUtil::StartsWith(expanded, "/")) {
		expanded = FileSystem::GetWorkingDirectory() + "/" + expanded;
	}
	auto real = realpath(expanded.c_str(), nullptr);
	if (real) {
		expanded = real;
		free(real); // NOLINT: of realpath
	}
	while (expanded.size() > 1 && expanded.back() == '/') {
		expanded.pop_back();
	}
	return expanded;
}

static string Environment(const char *name) {
	auto value = std::getenv(name); // NOLINT: read while a statement runs, never written
	return value ? value : "";
}

static FarPlace FarPlaceOf(const StorageLocation &location, FarPlace place, optional_ptr<FileOpener> opener) {
	if (!location.blob_url.empty()) {
		place.url = location.blob_url;
	}
	if (place.url.empty()) {
		place.url = Environment("OPENDUCK_BLOB_URL");
	}
	AddS3Secret(place, opener);
	place.AddEnvironment();
	return place;
}

StorageLocation StorageLocation::Resolve(const string &path, optional_ptr<FileOpener> opener) {
	return Resolve(Parse(path), opener);
}

StorageLocation StorageLocation::Resolve(StorageLocation result, optional_ptr<FileOpener> opener) {
	// What a path says that was resolved is not looked for again: secrets come and go while a database is attached.
	if (result.data_dir.empty() || result.metadata.empty() || !result.secret.empty() || !result.blob_url.empty()) {
		auto secret = FindStorageSecret(result, opener);
		if (result.data_dir.empty()) {
			result.data_dir = secret.data_dir;
		}
		auto url = secret.postgres_url.empty() ? Environment("OPENDUCK_POSTGRES_URL") : secret.postgres_url;
		if (result.metadata.empty()) {
			result.metadata = url.empty() ? SQLITE : MetadataOf(url);
		}
		if (result.far == 0) {
			result.far = FarPlaceOf(result, std::move(secret.far), opener).Number();
		}
	}
	if (result.data_dir.empty()) {
		result.data_dir = Environment("OPENDUCK_DATA_DIR");
	}
	if (result.data_dir.empty()) {
		char directory[4096];
		od_storage_error err = {};
		auto home = FileSystem::GetHomeDirectory(opener);
		if (od_storage_default_directory(home.c_str(), directory, sizeof directory, &err) != OD_STORAGE_OK) {
			throw BinderException("openduck://: %s; set OPENDUCK_DATA_DIR, or write ?data_dir=DIR",
			                      string(err.message));
		}
		result.data_dir = directory;
	}
	result.data_dir = AbsoluteDirectory(result.data_dir, opener);
	result.secret.clear();
	result.blob_url.clear();
	return result;
}

} // namespace openduck
