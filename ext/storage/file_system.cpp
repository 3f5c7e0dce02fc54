#include "storage/file_system.hpp"

#include "duckdb/common/exception/binder_exception.hpp"
#include "duckdb/common/string_util.hpp"

namespace openduck {

//===--------------------------------------------------------------------===//
// What is attached
//===--------------------------------------------------------------------===//
shared_ptr<Volume> StorageState::Attached(const string &volume_path) {
	lock_guard<mutex> guard(lock);
	auto entry = attached.find(volume_path);
	return entry == attached.end() ? nullptr : entry->second.lock();
}

void StorageState::SetAttached(const string &volume_path, const shared_ptr<Volume> &volume) {
	lock_guard<mutex> guard(lock);
	for (auto entry = attached.begin(); entry != attached.end();) {
		entry = entry->second.expired() ? attached.erase(entry) : std::next(entry);
	}
	attached[volume_path] = volume;
}

//===--------------------------------------------------------------------===//
// Syncs
//===--------------------------------------------------------------------===//
static thread_local int seals_that_follow = 0;

SealFollows::SealFollows() {
	seals_that_follow++;
}

SealFollows::~SealFollows() {
	seals_that_follow--;
}

bool SealFollows::IsTrue() {
	return seals_that_follow > 0;
}

//===--------------------------------------------------------------------===//
// Handles
//===--------------------------------------------------------------------===//
class VolumeFileHandle : public FileHandle {
public:
	VolumeFileHandle(FileSystem &fs, const string &path, FileOpenFlags flags, shared_ptr<Volume> volume_p,
	                 uint64_t file_p, bool is_log_p)
	    : FileHandle(fs, path, flags), volume(std::move(volume_p)), file(file_p), is_log(is_log_p) {
	}
	~VolumeFileHandle() override = default;

	void Close() override {
		volume.reset();
	}

	shared_ptr<Volume> volume;
	uint64_t file;
	bool is_log;
	idx_t position = 0;
};

static VolumeFileHandle &Of(FileHandle &handle) {
	auto &result = handle.Cast<VolumeFileHandle>();
	if (!result.volume) {
		throw IOException("'%s' is closed", handle.path);
	}
	return result;
}

StorageFileSystem::StorageFileSystem(shared_ptr<StorageState> state_p) : state(std::move(state_p)) {
}

//===--------------------------------------------------------------------===//
// Opening
//===--------------------------------------------------------------------===//
shared_ptr<Volume> StorageFileSystem::OpenMain(const StorageLocation &location, FileOpenFlags flags) {
	shared_ptr<Volume> volume;
	if (flags.OpenForWriting()) {
		if (location.IsReadOnly()) {
			throw IOException("'%s' cannot be opened to write: ATTACH it (READ_ONLY), or a clone of it",
			                  location.Name());
		}
		if (flags.Lock() != FileLockType::WRITE_LOCK || flags.OverwriteExistingFile()) {
			throw IOException("'%s' is a database, not a file: ATTACH it", location.Name());
		}
		auto create = flags.CreateFileIfNotExists();
		auto store = state->OpenStore(location, create);
		volume = Volume::Open(std::move(store), location, create ? VolumeUse::CREATE : VolumeUse::WRITE);
	} else {
		volume = Volume::Open(state->OpenStore(location, false), location, VolumeUse::READ);
	}
	if (volume && flags.Lock() != FileLockType::NO_LOCK) {
		state->SetAttached(location.VolumePath(), volume);
	}
	return volume;
}

shared_ptr<Volume> StorageFileSystem::Look(const StorageLocation &location) {
	auto attached = state->Attached(location.VolumePath());
	if (attached) {
		return attached;
	}
	auto elsewhere = !location.PostgresUrl().empty();
	if (!elsewhere && !FileSystem::CreateLocal()->DirectoryExists(location.data_dir)) {
		return nullptr;
	}
	// With metadata elsewhere the database may be another machine's, and this directory a new one.
	return Volume::TryOpen(state->OpenStore(location, elsewhere), location);
}

unique_ptr<FileHandle> StorageFileSystem::OpenFile(const string &path, FileOpenFlags flags,
                                                   optional_ptr<FileOpener> opener) {
	auto location = StorageLocation::Resolve(path, opener);
	if (flags.OpenForWriting() && !location.MayBeMade()) {
		throw IOException("'%s' holds a database and its log, not '%s'", location.Name(), location.file);
	}
	// So ATTACH asks what kind of file it is. It opens the file in any case, and a volume is worth opening once.
	if (location.IsMain() && !flags.OpenForWriting() && flags.Lock() == FileLockType::NO_LOCK &&
	    flags.ReturnNullIfNotExists()) {
		return nullptr;
	}
	auto volume = location.IsMain() ? OpenMain(location, flags) : Look(location);
	uint64_t file = 0;
	if (!volume || !volume->Find(location.file, file)) {
		if (volume && flags.OpenForWriting() && (flags.CreateFileIfNotExists() || flags.OverwriteExistingFile())) {
			file = volume->Create(location.file);
		} else if (flags.ReturnNullIfNotExists()) {
			return nullptr;
		} else {
			throw IOException("cannot open '%s': there is no file '%s' in it", location.Name(), location.file);
		}
	} else if (location.IsMain() && flags.CreateFileIfNotExists() && volume->Size(file) > 0) {
		// DuckDB would write an empty database over it, since it saw none a moment ago.
		throw IOException("'%s' has just been made by somebody else: ATTACH it again", location.Name());
	} else if (flags.OverwriteExistingFile()) {
		volume->Truncate(file, 0);
	}
	return make_uniq<VolumeFileHandle>(*this, path, flags, std::move(volume), file, !location.IsMain());
}

//===--------------------------------------------------------------------===//
// Bytes
//===--------------------------------------------------------------------===//
void StorageFileSystem::Read(FileHandle &handle, void *buffer, int64_t nr_bytes, idx_t location) {
	auto &from = Of(handle);
	auto length = NumericCast<idx_t>(nr_bytes);
	auto got = from.volume->Read(from.file, location, buffer, length);
	if (got != length) {
		throw IOException("cannot read %llu bytes at %llu from '%s': the file ends after %llu of them", length,
		                  location, handle.path, got);
	}
}

int64_t StorageFileSystem::Read(FileHandle &handle, void *buffer, int64_t nr_bytes) {
	auto &from = Of(handle);
	auto got = from.volume->Read(from.file, from.position, buffer, NumericCast<idx_t>(nr_bytes));
	from.position += got;
	return NumericCast<int64_t>(got);
}

void StorageFileSystem::Write(FileHandle &handle, void *buffer, int64_t nr_bytes, idx_t location) {
	auto &to = Of(handle);
	to.volume->Write(to.file, location, buffer, NumericCast<idx_t>(nr_bytes));
}

int64_t StorageFileSystem::Write(FileHandle &handle, void *buffer, int64_t nr_bytes) {
	auto &to = Of(handle);
	if (handle.flags.OpenForAppending()) {
		to.position = to.volume->Size(to.file);
	}
	to.volume->Write(to.file, to.position, buffer, NumericCast<idx_t>(nr_bytes));
	to.position += NumericCast<idx_t>(nr_bytes);
	return nr_bytes;
}

void StorageFileSystem::Truncate(FileHandle &handle, int64_t new_size) {
	auto &of = Of(handle);
	if (of.is_log) {
		of.volume->TruncateOrPromise(of.file, NumericCast<idx_t>(new_size));
	} else {
		of.volume->Truncate(of.file, NumericCast<idx_t>(new_size));
	}
}

void StorageFileSystem::FileSync(FileHandle &handle) {
	auto &of = Of(handle);
	if (!SealFollows::IsTrue()) {
		of.volume->Sync();
	}
}

int64_t StorageFileSystem::GetFileSize(FileHandle &handle) {
	auto &of = Of(handle);
	return NumericCast<int64_t>(of.volume->Size(of.file));
}

timestamp_t StorageFileSystem::GetLastModifiedTime(FileHandle &handle) {
	return timestamp_t(0); // nobody writes it down; DuckDB's word for that
}

FileType StorageFileSystem::GetFileType(FileHandle &handle) {
	return FileType::FILE_TYPE_REGULAR;
}

void StorageFileSystem::Seek(FileHandle &handle, idx_t location) {
	Of(handle).position = location;
}

void StorageFileSystem::Reset(FileHandle &handle) {
	Of(handle).position = 0;
}

idx_t StorageFileSystem::SeekPosition(FileHandle &handle) {
	return Of(handle).position;
}

bool StorageFileSystem::CanSeek() {
	return true;
}

bool StorageFileSystem::OnDiskFile(FileHandle &handle) {
	return true;
}

//===--------------------------------------------------------------------===//
// Names
//===--------------------------------------------------------------------===//
bool StorageFileSystem::FileExists(const string &path, optional_ptr<FileOpener> opener) {
	auto location = StorageLocation::Resolve(path, opener);
	auto volume = Look(location);
	uint64_t file;
	return volume && volume->Find(location.file, file);
}

bool StorageFileSystem::IsPipe(const string &path, optional_ptr<FileOpener> opener) {
	return false;
}

void StorageFileSystem::RemoveFile(const string &path, optional_ptr<FileOpener> opener) {
	if (!TryRemoveFile(path, opener)) {
		throw IOException("cannot remove '%s': there is no such file", path);
	}
}

bool StorageFileSystem::TryRemoveFile(const string &path, optional_ptr<FileOpener> opener) {
	auto location = StorageLocation::Resolve(path, opener);
	auto volume = Look(location);
	uint64_t file;
	if (!volume || !volume->Find(location.file, file)) {
		return false;
	}
	auto attached = state->Attached(location.VolumePath());
	if (!attached) {
		// Without its database file a log is what a crash left of an ATTACH that made the database.
		volume.reset();
		attached = Volume::Open(state->OpenStore(location, false), location, VolumeUse::WRITE);
		if (!attached->Find(location.file, file)) {
			return false;
		}
	}
	attached->Remove(file);
	return true;
}

void StorageFileSystem::MoveFile(const string &source, const string &target, optional_ptr<FileOpener> opener) {
	auto from = StorageLocation::Resolve(source, opener);
	if (!StorageLocation::IsOne(target)) {
		throw IOException("cannot move '%s' to '%s': a database's files stay in its volume", source, target);
	}
	auto to = StorageLocation::Resolve(target, opener);
	auto volume = state->Attached(from.VolumePath());
	uint64_t file;
	if (from.VolumePath() != to.VolumePath() || !to.MayBeMade() || !volume || !volume->Find(from.file, file)) {
		throw IOException("cannot move '%s' to '%s': no attached database has them", source, target);
	}
	volume->Rename(file, to.file);
}

vector<OpenFileInfo> StorageFileSystem::Glob(const string &path, FileOpener *opener) {
	vector<OpenFileInfo> result;
	if (FileExists(path, opener)) {
		result.emplace_back(path);
	}
	return result;
}

bool StorageFileSystem::DirectoryExists(const string &directory, optional_ptr<FileOpener> opener) {
	return false;
}

void StorageFileSystem::CreateDirectory(const string &directory, optional_ptr<FileOpener> opener) {
	throw IOException("cannot make the directory '%s': openduck:// holds databases, no other files", directory);
}

string StorageFileSystem::CanonicalizePath(const string &path, optional_ptr<FileOpener> opener) {
	return StorageLocation::Resolve(path, opener).Path();
}

string StorageFileSystem::PathSeparator(const string &path) {
	return "/";
}

bool StorageFileSystem::CanHandleFile(const string &path) {
	return StorageLocation::IsOne(path);
}

string StorageFileSystem::GetName() const {
	return "OpenDuckStorage";
}

} // namespace openduck
