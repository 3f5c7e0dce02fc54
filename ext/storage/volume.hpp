//===----------------------------------------------------------------------===//
// storage/volume.hpp: stores and volumes of include/openduck/storage.h, for DuckDB
//===----------------------------------------------------------------------===//
#pragma once

#include "storage/location.hpp"

#include "openduck/storage.h"

namespace openduck {

//! Throws what ERR says, after "WHAT: ". Never an InternalException, which would end the user's instance.
[[noreturn]] void ThrowStorageError(const od_storage_error &err, const string &what);

//! Who is told of the work of stores, as od_storage_options says. It outlives them.
struct StorageObserver {
	void (*observe)(void *arg, const od_storage_event *event) = nullptr;
	void *arg = nullptr;
};

//! An open store; closed with the last volume that is open in it.
class Store {
public:
	//! CREATE: its directory is made if there is none. IOException otherwise.
	Store(const StorageLocation &location, bool create, const StorageObserver &observer);
	~Store();
	Store(const Store &) = delete;
	Store &operator=(const Store &) = delete;

	od_store *Handle() const {
		return handle;
	}
	const string directory;

private:
	od_store *handle = nullptr;
};

//! The stores that are open, one for each directory, metadata and lease.
class Stores {
public:
	explicit Stores(const StorageObserver &observer_p) : observer(observer_p) {
	}
	shared_ptr<Store> Open(const StorageLocation &location, bool create);

private:
	const StorageObserver observer;
	mutex lock;
	unordered_map<string, weak_ptr<Store>> open;
};

enum class VolumeUse : uint8_t { READ, WRITE, CREATE };

//! An open volume. Files are named by the library's numbers. Everything but Truncate of a log throws when it fails.
class Volume {
public:
	//! Opens what LOCATION says, with USE where it is no snapshot.
	static shared_ptr<Volume> Open(shared_ptr<Store> store, const StorageLocation &location, VolumeUse use);
	//! As Open, for reading; nullptr if there is no such database.
	static shared_ptr<Volume> TryOpen(shared_ptr<Store> store, const StorageLocation &location);
	~Volume();
	Volume(const Volume &) = delete;
	Volume &operator=(const Volume &) = delete;

	//! False: there is no file of that name.
	bool Find(const string &file_name, uint64_t &file) const;
	uint64_t Create(const string &file_name);
	void Remove(uint64_t file);
	void Rename(uint64_t file, const string &file_name);
	idx_t Size(uint64_t file) const;
	//! Returns how many bytes there were.
	idx_t Read(uint64_t file, idx_t offset, void *buffer, idx_t length) const;
	void Write(uint64_t file, idx_t offset, const void *data, idx_t length);
	void Truncate(uint64_t file, idx_t size);
	//! For logs. DuckDB takes a commit that failed out of its log where an exception would end the process. If it cannot be cut
	//! now (the disk is full, say), it has that size for DuckDB from here on, and is cut before anything else becomes durable.
	void TruncateOrPromise(uint64_t file, idx_t size) noexcept;
	void Sync();
	//! The id of the snapshot.
	string Seal();

	const shared_ptr<Store> store;
	const string name;

private:
	Volume(shared_ptr<Store> store, const StorageLocation &location, od_volume *handle);
	static od_storage_code TryOpenHandle(const Store &store, const StorageLocation &location, VolumeUse use,
	                                     od_volume **handle, od_storage_error *err);
	void Check(od_storage_code code, const od_storage_error &err, const char *what) const;
	void KeepPromises();

	od_volume *handle;
	mutable mutex promise_lock;
	//! Sizes that logs have for DuckDB, and not yet in the volume.
	unordered_map<uint64_t, idx_t> promised;
	atomic<bool> has_promises {false};
};

} // namespace openduck
