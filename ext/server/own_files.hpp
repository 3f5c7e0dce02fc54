// ext/server/own_files.hpp: the files that statements with limits may use.
#pragma once

#include "duckdb/common/opener_file_system.hpp"

namespace openduck {

//! A connection's file system that refuses every path but those below its folders: binding alone opens files, and its errors tell of what
//! is in them. What is not overridden is refused too.
class OwnFiles : public duckdb::OpenerFileSystem {
public:
	//! FOLDERS: where the data of lakes is that may be used; WRITES: it may be changed. WHO begins the refusal.
	OwnFiles(duckdb::unique_ptr<duckdb::FileSystem> files, duckdb::string who, duckdb::vector<duckdb::string> folders,
	         bool writes);
	//! What it stands before
	duckdb::unique_ptr<duckdb::FileSystem> Release();

	duckdb::FileSystem &GetFileSystem() const override;
	duckdb::optional_ptr<duckdb::FileOpener> GetOpener() const override;
	duckdb::string GetName() const override;

	// Of a file that was opened
	void Read(duckdb::FileHandle &handle, void *buffer, int64_t bytes, duckdb::idx_t location) override;
	int64_t Read(duckdb::FileHandle &handle, void *buffer, int64_t bytes) override;
	int64_t Write(duckdb::FileHandle &handle, void *buffer, int64_t bytes) override;
	int64_t GetFileSize(duckdb::FileHandle &handle) override;
	duckdb::timestamp_t GetLastModifiedTime(duckdb::FileHandle &handle) override;
	duckdb::string GetVersionTag(duckdb::FileHandle &handle) override;
	duckdb::FileType GetFileType(duckdb::FileHandle &handle) override;
	duckdb::FileMetadata Stats(duckdb::FileHandle &handle) override;
	void FileSync(duckdb::FileHandle &handle) override;

	duckdb::string PathSeparator(const duckdb::string &path) override;
	bool IsDisabledForPath(const duckdb::string &path) override;
	bool IsPipe(const duckdb::string &path, duckdb::optional_ptr<duckdb::FileOpener> opener) override;
	bool FileExists(const duckdb::string &path, duckdb::optional_ptr<duckdb::FileOpener> opener) override;
	bool DirectoryExists(const duckdb::string &path, duckdb::optional_ptr<duckdb::FileOpener> opener) override;
	void CreateDirectory(const duckdb::string &path, duckdb::optional_ptr<duckdb::FileOpener> opener) override;
	void RemoveFile(const duckdb::string &path, duckdb::optional_ptr<duckdb::FileOpener> opener) override;
	bool TryRemoveFile(const duckdb::string &path, duckdb::optional_ptr<duckdb::FileOpener> opener) override;
	duckdb::vector<duckdb::OpenFileInfo> Glob(const duckdb::string &path, duckdb::FileOpener *opener) override;

protected:
	duckdb::unique_ptr<duckdb::FileHandle> OpenFileExtended(const duckdb::OpenFileInfo &file,
	                                                        duckdb::FileOpenFlags flags,
	                                                        duckdb::optional_ptr<duckdb::FileOpener> opener) override;
	duckdb::unique_ptr<duckdb::MultiFileList>
	GlobFilesExtended(const duckdb::string &path, const duckdb::FileGlobInput &input,
	                  duckdb::optional_ptr<duckdb::FileOpener> opener) override;

	duckdb::string CanonicalizePath(const duckdb::string &path,
	                                duckdb::optional_ptr<duckdb::FileOpener> opener) override;

private:
	//! The file system for PATH, which is below a folder
	duckdb::FileSystem &For(const duckdb::string &path, bool change) const;
	[[noreturn]] void Refuse() const;

	duckdb::unique_ptr<duckdb::FileSystem> files;
	duckdb::string who;
	duckdb::vector<duckdb::string> folders;
	bool writes;
};

} // namespace openduck
