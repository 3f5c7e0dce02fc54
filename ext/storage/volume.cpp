#include "storage/volume.hpp"

#include "common/throw.hpp"
#include "storage/far_place.hpp"

#include "duckdb/common/file_system.hpp"

namespace openduck {

void ThrowStorageError(const od_storage_error &err, const string &what) {
	auto text = what + ": " + ForeignText(err.message, strlen(err.message));
	switch (err.code) {
	case OD_STORAGE_INVALID:
		throw InvalidInputException("%s", text);
	case OD_STORAGE_NO_MEMORY:
		throw OutOfMemoryException("%s", text);
	case OD_STORAGE_STALE_LEASE:
		throw IOException("%s. DETACH the database and ATTACH it again to write", text);
	default:
		throw IOException("%s", text);
	}
}

//===--------------------------------------------------------------------===//
// Stores
//===--------------------------------------------------------------------===//
static void MakeDirectory(const string &directory) {
	auto fs = FileSystem::CreateLocal();
	if (!fs->DirectoryExists(directory)) {
		fs->CreateDirectoriesRecursive(directory);
	}
}

Store::Store(const StorageLocation &location, bool create, const StorageObserver &observer)
    : directory(location.data_dir) {
	if (create) {
		MakeDirectory(directory);
	}
	auto postgres_url = location.PostgresUrl();
	FarPlace far;
	FarPlace::Find(location.far, far);
	od_storage_options options = {};
	far.Fill(options);
	options.directory = directory.c_str();
	options.lease_ms = location.lease_ms;
	options.postgres_url = postgres_url.empty() ? nullptr : postgres_url.c_str();
	options.observe = observer.observe;
	options.observe_arg = observer.arg;
	od_storage_error err = {};
	if (od_store_open_options(&options, &handle, &err) != OD_STORAGE_OK) {
		ThrowStorageError(err, "cannot open the store in '" + directory + "'");
	}
}

Store::~Store() {
	od_store_close(handle, nullptr);
}

shared_ptr<Store> Stores::Open(const StorageLocation &location, bool create) {
	lock_guard<mutex> guard(lock);
	auto &entry = open[location.data_dir + '\n' + location.metadata + '\n' + to_string(location.far) + '\n' +
	                   to_string(location.lease_ms)];
	auto result = entry.lock();
	if (!result) {
		result = make_shared_ptr<Store>(location, create, observer);
		entry = result;
	}
	return result;
}

//===--------------------------------------------------------------------===//
// Volumes
//===--------------------------------------------------------------------===//
Volume::Volume(shared_ptr<Store> store_p, const StorageLocation &location, od_volume *handle_p)
    : store(std::move(store_p)), name(location.Name()), handle(handle_p) {
}

//! The newest snapshot of a database; empty: there is none.
static od_storage_code NewestSnapshot(const Store &store, const string &database, string &id, od_storage_error *err) {
	auto note = [](void *arg, const od_storage_snapshot *snapshot) {
		*static_cast<string *>(arg) = snapshot->id;
		return 0;
	};
	return od_store_snapshots(store.Handle(), database.c_str(), note, &id, err);
}

od_storage_code Volume::TryOpenHandle(const Store &store, const StorageLocation &location, VolumeUse use,
                                      od_volume **handle, od_storage_error *err) {
	auto snapshot = location.snapshot;
	if (location.state == "sealed") {
		auto code = NewestSnapshot(store, location.database, snapshot, err);
		if (code != OD_STORAGE_OK) {
			return code;
		}
		if (snapshot.empty()) {
			err->code = OD_STORAGE_NOT_FOUND;
			snprintf(err->message, sizeof err->message, "it was never sealed");
			return err->code;
		}
	}
	if (!snapshot.empty()) {
		return od_volume_open_snapshot(store.Handle(), snapshot.c_str(), handle, err);
	}
	auto mode = use == VolumeUse::READ ? OD_VOLUME_READ : use == VolumeUse::WRITE ? OD_VOLUME_WRITE : OD_VOLUME_CREATE;
	return od_volume_open(store.Handle(), location.database.c_str(), mode, handle, err);
}

shared_ptr<Volume> Volume::Open(shared_ptr<Store> store, const StorageLocation &location, VolumeUse use) {
	od_volume *handle = nullptr;
	od_storage_error err = {};
	if (TryOpenHandle(*store, location, use, &handle, &err) != OD_STORAGE_OK) {
		ThrowStorageError(err, "cannot open '" + location.Name() + "' in '" + store->directory + "'");
	}
	return shared_ptr<Volume>(new Volume(std::move(store), location, handle));
}

shared_ptr<Volume> Volume::TryOpen(shared_ptr<Store> store, const StorageLocation &location) {
	od_volume *handle = nullptr;
	od_storage_error err = {};
	auto code = TryOpenHandle(*store, location, VolumeUse::READ, &handle, &err);
	if (code == OD_STORAGE_NOT_FOUND) {
		return nullptr;
	}
	if (code != OD_STORAGE_OK) {
		ThrowStorageError(err, "cannot open '" + location.Name() + "' in '" + store->directory + "'");
	}
	return shared_ptr<Volume>(new Volume(std::move(store), location, handle));
}

Volume::~Volume() {
	try {
		KeepPromises();
	} catch (...) { // NOLINT: what DuckDB was told is durable is so already
	}
	od_volume_close(handle, nullptr);
}

void Volume::Check(od_storage_code code, const od_storage_error &err, const char *what) const {
	if (code != OD_STORAGE_OK) {
		ThrowStorageError(err, string("cannot ") + what + " '" + name + "'");
	}
}

bool Volume::Find(const string &file_name, uint64_t &file) const {
	od_storage_error err = {};
	auto code = od_volume_find(handle, file_name.c_str(), &file, &err);
	if (code == OD_STORAGE_NOT_FOUND) {
		return false;
	}
	Check(code, err, "look into");
	return true;
}

uint64_t Volume::Create(const string &file_name) {
	uint64_t file = 0;
	od_storage_error err = {};
	Check(od_volume_create(handle, file_name.c_str(), &file, &err), err, "make a file in");
	return file;
}

void Volume::Remove(uint64_t file) {
	od_storage_error err = {};
	Check(od_volume_remove(handle, file, &err), err, "remove a file of");
	lock_guard<mutex> guard(promise_lock);
	promised.erase(file);
}

void Volume::Rename(uint64_t file, const string &file_name) {
	od_storage_error err = {};
	KeepPromises();
	Check(od_volume_rename(handle, file, file_name.c_str(), &err), err, "rename a file of");
}

idx_t Volume::Size(uint64_t file) const {
	if (has_promises) {
		lock_guard<mutex> guard(promise_lock);
		auto entry = promised.find(file);
		if (entry != promised.end()) {
			return entry->second;
		}
	}
	uint64_t size = 0;
	od_storage_error err = {};
	Check(od_volume_size(handle, file, &size, &err), err, "look into");
	return size;
}

idx_t Volume::Read(uint64_t file, idx_t offset, void *buffer, idx_t length) const {
	size_t got = 0;
	od_storage_error err = {};
	Check(od_volume_read(handle, file, offset, buffer, length, &got, &err), err, "read from");
	return got;
}

void Volume::Write(uint64_t file, idx_t offset, const void *data, idx_t length) {
	od_storage_error err = {};
	KeepPromises();
	Check(od_volume_write(handle, file, offset, data, length, &err), err, "write to");
}

void Volume::Truncate(uint64_t file, idx_t size) {
	od_storage_error err = {};
	KeepPromises();
	Check(od_volume_truncate(handle, file, size, &err), err, "truncate a file of");
}

void Volume::TruncateOrPromise(uint64_t file, idx_t size) noexcept {
	lock_guard<mutex> guard(promise_lock);
	auto entry = promised.find(file);
	if (entry != promised.end()) {
		entry->second = MinValue(entry->second, size);
	} else if (od_volume_truncate(handle, file, size, nullptr) != OD_STORAGE_OK) {
		promised[file] = size;
		has_promises = true;
	}
}

void Volume::KeepPromises() {
	if (!has_promises) {
		return;
	}
	lock_guard<mutex> guard(promise_lock);
	while (!promised.empty()) {
		auto entry = promised.begin();
		od_storage_error err = {};
		Check(od_volume_truncate(handle, entry->first, entry->second, &err), err, "take a failed commit out of");
		promised.erase(entry);
	}
	has_promises = false;
}

void Volume::Sync() {
	od_storage_error err = {};
	KeepPromises();
	Check(od_volume_sync(handle, &err), err, "sync");
}

string Volume::Seal() {
	char snapshot[OD_STORAGE_ID_SIZE];
	od_storage_error err = {};
	KeepPromises();
	Check(od_volume_seal(handle, snapshot, &err), err, "seal");
	return snapshot;
}

} // namespace openduck
