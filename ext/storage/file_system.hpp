//===----------------------------------------------------------------------===//
// storage/file_system.hpp: DuckDB reads and writes openduck://
//===----------------------------------------------------------------------===//
#pragma once

#include "storage/volume.hpp"

#include "duckdb/common/file_system.hpp"

namespace openduck {

//! What is open through one DuckDB instance. Shared by its file system and its functions.
class StorageState {
public:
	explicit StorageState(const StorageObserver &observer = StorageObserver()) : stores(observer) {
	}
	shared_ptr<Store> OpenStore(const StorageLocation &location, bool create) {
		return stores.Open(location, create);
	}
	//! The volume of the ATTACH whose database file has that path; nullptr: there is none.
	shared_ptr<Volume> Attached(const string &volume_path);
	void SetAttached(const string &volume_path, const shared_ptr<Volume> &volume);

private:
	Stores stores;
	mutex lock;
	unordered_map<string, weak_ptr<Volume>> attached;
};

//! While one lives, what its thread asks to sync is not synced but only ordered: a seal follows, which syncs everything before it. Who dies
//! or fails before that leaves the log as it was at the last sync, or a later moment of it; what other threads commit is synced by them.
class SealFollows {
public:
	SealFollows();
	~SealFollows();
	SealFollows(const SealFollows &) = delete;
	SealFollows &operator=(const SealFollows &) = delete;
	//! In this thread.
	static bool IsTrue();
};

//! Opening a database file opens its volume, and the last handle of any of its files closes it. The handles of a database's log find
//! the volume of its ATTACH.
class StorageFileSystem : public FileSystem {
public:
	explicit StorageFileSystem(shared_ptr<StorageState> state);

	unique_ptr<FileHandle> OpenFile(const string &path, FileOpenFlags flags, optional_ptr<FileOpener> opener) override;
	void Read(FileHandle &handle, void *buffer, int64_t nr_bytes, idx_t location) override;
	int64_t Read(FileHandle &handle, void *buffer, int64_t nr_bytes) override;
	void Write(FileHandle &handle, void *buffer, int64_t nr_bytes, idx_t location) override;
	int64_t Write(FileHandle &handle, void *buffer, int64_t nr_bytes) override;
	void Truncate(FileHandle &handle, int64_t new_size) override;
	void FileSync(FileHandle &handle) override;
	int64_t GetFileSize(FileHandle &handle) override;
	timestamp_t GetLastModifiedTime(FileHandle &handle) override;
	FileType GetFileType(FileHandle &handle) override;
	void Seek(FileHandle &handle, idx_t location) override;
	void Reset(FileHandle &handle) override;
	idx_t SeekPosition(FileHandle &handle) override;
	bool CanSeek() override;
	bool OnDiskFile(FileHandle &handle) override;

	bool FileExists(const string &path, optional_ptr<FileOpener> opener) override;
	bool IsPipe(const string &path, optional_ptr<FileOpener> opener) override;
	void RemoveFile(const string &path, optional_ptr<FileOpener> opener) override;
	bool TryRemoveFile(const string &path, optional_ptr<FileOpener> opener) override;
	void MoveFile(const string &source, const string &target, optional_ptr<FileOpener> opener) override;
	vector<OpenFileInfo> Glob(const string &path, FileOpener *opener) override;
	bool DirectoryExists(const string &directory, optional_ptr<FileOpener> opener) override;
	void CreateDirectory(const string &directory, optional_ptr<FileOpener> opener) override;

	string CanonicalizePath(const string &path, optional_ptr<FileOpener> opener) override;
	string PathSeparator(const string &path) override;
	bool CanHandleFile(const string &path) override;
	string GetName() const override;

private:
	shared_ptr<Volume> OpenMain(const StorageLocation &location, FileOpenFlags flags);
	//! To look at: that of the ATTACH, or else one that is opened for it; nullptr: there is no such database.
	shared_ptr<Volume> Look(const StorageLocation &location);

	shared_ptr<StorageState> state;
};

} // namespace openduck
