#include "server/own_files.hpp"

#include "duckdb/common/exception.hpp"
#include "duckdb/common/multi_file/multi_file_list.hpp"
#include "duckdb/common/string_util.hpp"

using namespace duckdb; // NOLINT

namespace openduck {

OwnFiles::OwnFiles(unique_ptr<FileSystem> files, string who, vector<string> folders_p, bool writes)
    : files(std::move(files)), who(std::move(who)), folders(std::move(folders_p)), writes(writes) {
	for (auto &folder : folders) {
		if (!StringUtil::EndsWith(folder, "/")) {
			folder += "/";
		}
	}
}

unique_ptr<FileSystem> OwnFiles::Release() {
	return std::move(files);
}

void OwnFiles::Refuse() const {
	throw PermissionException("%s has limits, and may not use files", who);
}

FileSystem &OwnFiles::For(const string &path, bool change) const {
	if (path.find("..") != string::npos || (change && !writes)) {
		Refuse();
	}
	for (auto &folder : folders) {
		if (StringUtil::StartsWith(path + "/", folder)) {
			return *files;
		}
	}
	Refuse();
}

FileSystem &OwnFiles::GetFileSystem() const {
	Refuse();
}

optional_ptr<FileOpener> OwnFiles::GetOpener() const {
	return nullptr;
}

string OwnFiles::GetName() const {
	return "OwnFiles";
}

void OwnFiles::Read(FileHandle &handle, void *buffer, int64_t bytes, idx_t location) {
	files->Read(handle, buffer, bytes, location);
}

int64_t OwnFiles::Read(FileHandle &handle, void *buffer, int64_t bytes) {
	return files->Read(handle, buffer, bytes);
}

int64_t OwnFiles::Write(FileHandle &handle, void *buffer, int64_t bytes) {
	return files->Write(handle, buffer, bytes);
}

int64_t OwnFiles::GetFileSize(FileHandle &handle) {
	return files->GetFileSize(handle);
}

timestamp_t OwnFiles::GetLastModifiedTime(FileHandle &handle) {
	return files->GetLastModifiedTime(handle);
}

string OwnFiles::GetVersionTag(FileHandle &handle) {
	return files->GetVersionTag(handle);
}

FileType OwnFiles::GetFileType(FileHandle &handle) {
	return files->GetFileType(handle);
}

FileMetadata OwnFiles::Stats(FileHandle &handle) {
	return files->Stats(handle);
}

void OwnFiles::FileSync(FileHandle &handle) {
	files->FileSync(handle);
}

string OwnFiles::PathSeparator(const string &path) {
	return files->PathSeparator(path);
}

bool OwnFiles::IsDisabledForPath(const string &path) {
	return files->IsDisabledForPath(path);
}

bool OwnFiles::IsPipe(const string &path, optional_ptr<FileOpener> opener) {
	return For(path, false).IsPipe(path, opener);
}

bool OwnFiles::FileExists(const string &path, optional_ptr<FileOpener> opener) {
	return For(path, false).FileExists(path, opener);
}

bool OwnFiles::DirectoryExists(const string &path, optional_ptr<FileOpener> opener) {
	return For(path, false).DirectoryExists(path, opener);
}

void OwnFiles::CreateDirectory(const string &path, optional_ptr<FileOpener> opener) {
	For(path, true).CreateDirectory(path, opener);
}

void OwnFiles::RemoveFile(const string &path, optional_ptr<FileOpener> opener) {
	For(path, true).RemoveFile(path, opener);
}

bool OwnFiles::TryRemoveFile(const string &path, optional_ptr<FileOpener> opener) {
	return For(path, true).TryRemoveFile(path, opener);
}

vector<OpenFileInfo> OwnFiles::Glob(const string &path, FileOpener *opener) {
	return For(path, false).Glob(path, opener);
}

unique_ptr<FileHandle> OwnFiles::OpenFileExtended(const OpenFileInfo &file, FileOpenFlags flags,
                                                  optional_ptr<FileOpener> opener) {
	return For(file.path, flags.OpenForWriting()).OpenFile(file, flags, opener);
}

string OwnFiles::CanonicalizePath(const string &path, optional_ptr<FileOpener> opener) {
	return For(path, false).CanonicalizePath(path, opener);
}

unique_ptr<MultiFileList> OwnFiles::GlobFilesExtended(const string &path, const FileGlobInput &input,
                                                      optional_ptr<FileOpener> opener) {
	return For(path, false).Glob(path, input, opener);
}

} // namespace openduck
