#include "vgi/secret_service.hpp"

#include "common/companions.hpp"
#include "common/event.hpp"

#include "duckdb/common/error_data.hpp"
#include "duckdb/main/connection.hpp"

#include <chrono>

namespace vgi {

//! A file is not opened before the answer is there, so this is how long one may stall.
static constexpr int64_t TIMEOUT_MS = 10000;
static constexpr auto INTERRUPT_CHECK = std::chrono::milliseconds(50);
static constexpr const char *DEFAULT_PROVIDER = "vgi";

static int64_t Now() {
	return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
	    .count();
}

SecretService::SecretService(const string &url_p, const string &token) : url(url_p), remote(url, token, TIMEOUT_MS) {
}

//===--------------------------------------------------------------------===//
// One answer
//===--------------------------------------------------------------------===//
//! Of the type that was asked for, and with all of its values redacted wherever it is shown.
static shared_ptr<const KeyValueSecret> MakeSecret(DatabaseInstance &db, const od_vgi_secret &told,
                                                   const string &type) {
	// A lookup may come without a context.
	Connection connection(db);
	auto provider = Text(told.provider), name = Text(told.name);
	auto result = make_shared_ptr<KeyValueSecret>(
	    Texts(told.scope), type, provider.empty() ? DEFAULT_PROVIDER : provider, name.empty() ? "vgi_" + type : name);
	for (auto &value : ReadValues(*connection.context, *told.values)) {
		if (!value.value.IsNull()) {
			result->secret_map[value.name] = std::move(value.value);
			result->redact_keys.insert(value.name);
		}
	}
	return result;
}

SecretService::Kept SecretService::Call(DatabaseInstance &db, optional_ptr<ClientContext> context, const string &path,
                                        const string &type, string &outcome) {
	Answer<od_vgi_secret> answer;
	od_error err = {};
	auto interrupt = context ? VgiRemote::Interrupt(*context) : od_vgi_interrupt {nullptr, nullptr};
	ThrowIfFailed(od_vgi_lookup_secret(remote.Handle(), interrupt, path.c_str(), type.c_str(), &answer.data, &err),
	              err);
	auto now = Now();
	outcome = answer->found ? "found" : "not_found";
	auto secret = answer->found ? MakeSecret(db, answer.data, type) : nullptr;
	return {std::move(secret), now + od_vgi_secret_keep_seconds(&answer.data, now)};
}

SecretService::Kept SecretService::Ask(DatabaseInstance &db, optional_ptr<ClientContext> context, const string &path,
                                       const string &type) {
	auto start = std::chrono::steady_clock::now();
	vector<std::pair<string, string>> fields = {{"endpoint", url}, {"type", type}};
	string outcome;
	try {
		auto result = Call(db, context, path, type, outcome);
		auto took = std::chrono::steady_clock::now() - start;
		auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
		fields.emplace_back("outcome", outcome);
		fields.emplace_back("duration_ms", to_string(milliseconds));
		openduck::LogEvent(db, context, "secret.lookup", fields);
		return result;
	} catch (std::exception &ex) {
		ErrorData error(ex);
		if (error.Type() == ExceptionType::INTERRUPT) {
			throw;
		}
		fields.emplace_back("outcome", "error");
		auto why = openduck::Redacted(error.RawMessage());
		fields.emplace_back("error", why);
		openduck::LogEvent(db, context, "secret.lookup", fields);
		throw IOException("VGI remote secret lookup failed [endpoint: %s, type: %s]: %s", url, type, why);
	}
}

//===--------------------------------------------------------------------===//
// Answers that are kept
//===--------------------------------------------------------------------===//
void SecretService::Keep(const string &key, const Kept &answer) {
	auto now = Now();
	kept.erase(key);
	if (answer.until <= now) {
		return;
	}
	for (auto entry = kept.begin(); kept.size() >= MAX_KEPT && entry != kept.end();) {
		entry = entry->second.until <= now ? kept.erase(entry) : std::next(entry);
	}
	if (kept.size() >= MAX_KEPT) {
		kept.clear();
	}
	kept[key] = answer;
}

void SecretService::End(const string &key, Flight &flight) {
	flight.ended = true;
	flights.erase(key);
	ended.notify_all();
}

shared_ptr<const KeyValueSecret> SecretService::Find(DatabaseInstance &db, optional_ptr<ClientContext> context,
                                                     const string &path, const string &type) {
	auto key = type + '\0' + path;
	std::unique_lock<mutex> guard(lock);
	while (true) {
		auto known = kept.find(key);
		if (known != kept.end() && Now() < known->second.until) {
			return known->second.secret;
		}
		auto under_way = flights.find(key);
		if (under_way == flights.end()) {
			break;
		}
		auto flight = under_way->second;
		while (!flight->ended) {
			ended.wait_for(guard, INTERRUPT_CHECK);
			if (context && context->interrupted) {
				throw InterruptException();
			}
		}
		if (flight->error.HasError()) {
			flight->error.Throw();
		}
		if (!flight->interrupted) {
			return flight->secret;
		}
	}
	auto mine = make_shared_ptr<Flight>();
	flights[key] = mine;
	guard.unlock();
	try {
		auto answer = Ask(db, context, path, type);
		guard.lock();
		mine->secret = answer.secret;
		Keep(key, answer);
		End(key, *mine);
		return answer.secret;
	} catch (std::exception &ex) {
		ErrorData error(ex);
		if (!guard.owns_lock()) {
			guard.lock();
		}
		mine->interrupted = error.Type() == ExceptionType::INTERRUPT;
		if (!mine->interrupted) {
			mine->error = error;
		}
		End(key, *mine);
		throw;
	}
}

//===--------------------------------------------------------------------===//
// All services
//===--------------------------------------------------------------------===//
void SecretServices::Add(shared_ptr<SecretService> service) {
	lock_guard<mutex> guard(lock);
	services.push_back(std::move(service));
}

void SecretServices::Remove(const SecretService &service) {
	shared_ptr<SecretService> freed; // without the lock
	lock_guard<mutex> guard(lock);
	for (idx_t i = 0; i < services.size(); i++) {
		if (services[i].get() == &service) {
			freed = std::move(services[i]);
			services.erase_at(i);
			return;
		}
	}
}

vector<shared_ptr<SecretService>> SecretServices::All() {
	lock_guard<mutex> guard(lock);
	return services;
}

CatalogSecrets::CatalogSecrets(shared_ptr<SecretServices> services_p, const string &url, const string &token)
    : services(std::move(services_p)), service(make_shared_ptr<SecretService>(url, token)) {
	services->Add(service);
}

CatalogSecrets::~CatalogSecrets() {
	services->Remove(*service);
}

} // namespace vgi
