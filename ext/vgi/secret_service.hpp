//===----------------------------------------------------------------------===//
// vgi/secret_service.hpp: the secret services of attached catalogs
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/remote.hpp"

#include "duckdb/main/secret/secret.hpp"

#include <condition_variable>

namespace vgi {

//! One service, and what it has told within its time. Thread: any.
class SecretService {
public:
	//! At most that many answers are kept.
	static constexpr idx_t MAX_KEPT = 4096;

	//! Opens the service at URL; does no I/O. TOKEN is the catalog's.
	SecretService(const string &url, const string &token);

	//! The secret of TYPE for PATH; null if there is none. Threads that want the same wait for one call, which holds no
	//! lock. Throws what the call failed with. CONTEXT null: no statement can interrupt it.
	shared_ptr<const KeyValueSecret> Find(DatabaseInstance &db, optional_ptr<ClientContext> context, const string &path,
	                                      const string &type);

private:
	using Secret = shared_ptr<const KeyValueSecret>;

	struct Kept {
		Secret secret; //!< null: there is none
		int64_t until; //!< seconds since 1970
	};
	//! A call that is under way, or has ended.
	struct Flight {
		bool ended = false;
		bool interrupted = false; //!< whoever waits asks himself
		Secret secret;
		ErrorData error;
	};

	Kept Ask(DatabaseInstance &db, optional_ptr<ClientContext> context, const string &path, const string &type);
	Kept Call(DatabaseInstance &db, optional_ptr<ClientContext> context, const string &path, const string &type,
	          string &outcome);
	void Keep(const string &key, const Kept &answer);
	void End(const string &key, Flight &flight);

	const string url;
	VgiRemote remote;

	//! Guards what follows.
	mutex lock;
	std::condition_variable ended;
	unordered_map<string, Kept> kept;
	unordered_map<string, shared_ptr<Flight>> flights;
};

//! Those of one DuckDB instance, in the order in which their catalogs were attached. Thread: any.
class SecretServices {
public:
	void Add(shared_ptr<SecretService> service);
	void Remove(const SecretService &service);
	vector<shared_ptr<SecretService>> All();

private:
	mutex lock;
	vector<shared_ptr<SecretService>> services;
};

//! A catalog's service: among all as long as this lives.
class CatalogSecrets {
public:
	CatalogSecrets(shared_ptr<SecretServices> services, const string &url, const string &token);
	~CatalogSecrets();
	CatalogSecrets(const CatalogSecrets &) = delete;

private:
	shared_ptr<SecretServices> services;
	shared_ptr<SecretService> service;
};

} // namespace vgi
