#include "vgi/bound.hpp"

#include "vgi/secret_storage.hpp"
#include "vgi/transaction.hpp"

#include "duckdb/main/client_context.hpp"
#include "duckdb/main/secret/secret_manager.hpp"

namespace vgi {

//! The settings that FUNCTION needs, of those that its worker has declared.
static vector<NamedValue> Settings(ClientContext &context, VgiCatalog &catalog, const od_vgi_function &function) {
	vector<NamedValue> result;
	for (auto &name : Texts(function.required_settings)) {
		Value value;
		if (catalog.HasSetting(name) && context.TryGetCurrentSetting(name, value)) {
			result.push_back({name, std::move(value)});
		}
	}
	return result;
}

//! The secret as a struct of its keys, with its type and scope; null if the user has none that fits.
static unique_ptr<NamedValue> FindSecret(ClientContext &context, const od_vgi_secret_need &need) {
	// What the service of one catalog has is not for the workers of others.
	OwnSecretsOnly own;
	auto &manager = SecretManager::Get(context);
	auto transaction = CatalogTransaction::GetSystemCatalogTransaction(context);
	auto type = Text(need.secret_type);
	unique_ptr<SecretEntry> entry;
	if (need.name.len > 0) {
		entry = manager.GetSecretByName(transaction, Text(need.name));
	} else {
		auto match = manager.LookupSecret(transaction, Text(need.scope), type);
		if (match.HasMatch()) {
			entry = std::move(match.secret_entry);
		}
	}
	if (!entry || !StringUtil::CIEquals(entry->secret->GetType(), type)) {
		return nullptr;
	}
	auto secret = dynamic_cast<const KeyValueSecret *>(entry->secret.get());
	if (!secret) {
		return nullptr;
	}
	child_list_t<Value> values;
	for (auto &pair : secret->secret_map) {
		values.emplace_back(pair.first, pair.second);
	}
	values.emplace_back("type", Value(secret->GetType()));
	values.emplace_back("scope", Value(StringUtil::Join(secret->GetScope(), "\n")));
	return make_uniq<NamedValue>(NamedValue {secret->GetName(), Value::STRUCT(std::move(values))});
}

//! Those that are found, once each.
static vector<NamedValue> Secrets(ClientContext &context, VgiCatalog &catalog, const string &function,
                                  const od_vgi_secret_need *needs, idx_t count) {
	vector<NamedValue> result;
	case_insensitive_set_t seen;
	for (idx_t i = 0; i < count; i++) {
		auto type = Text(needs[i].secret_type);
		if (!catalog.MayHaveSecret(type)) {
			throw PermissionException(
			    "VGI function \"%s\" of \"%s\" asks for a secret of the type '%s', which is none of the "
			    "worker's own: ATTACH with WORKER_SECRETS true lets it have such",
			    function, catalog.GetName(), type);
		}
		auto found = FindSecret(context, needs[i]);
		if (found && seen.insert(found->name).second) {
			result.push_back(std::move(*found));
		}
	}
	return result;
}

namespace {

//! What a bind says of CALL; all is borrowed from here.
struct SentCall {
	SentCall(ClientContext &context, const FunctionCall &call, const vector<NamedValue> &settings_p,
	         const vector<NamedValue> &secrets_p)
	    : arguments(context, call.arguments), settings(context, settings_p), secrets(context, secrets_p) {
		bind.function = CText(call.function.name);
		bind.schema = call.schema.c_str();
		bind.type = call.function.type;
		bind.input = call.input;
		bind.at_unit = call.at_unit.empty() ? nullptr : call.at_unit.c_str();
		bind.at_value = call.at_unit.empty() ? nullptr : call.at_value.c_str();
		bind.arguments = arguments.Get();
		bind.settings = settings_p.empty() ? nullptr : settings.Get();
		bind.secrets = secrets_p.empty() ? nullptr : secrets.Get();
	}

	SentValues arguments, settings, secrets;
	od_vgi_bind bind = {};
};

//! Those that the function declares.
vector<NamedValue> DeclaredSecrets(ClientContext &context, const FunctionCall &call) {
	return Secrets(context, call.catalog, CText(call.function.name), call.function.secrets, call.function.secret_count);
}

} // namespace

shared_ptr<BoundFunction> BindAtWorker(ClientContext &context, const FunctionCall &call) {
	auto &remote = call.catalog.Remote();
	auto worker_call = VgiTransaction::Get(context, call.catalog).Call(context);
	auto settings = Settings(context, call.catalog, call.function);
	auto secrets = DeclaredSecrets(context, call);
	bool again = false;
	while (true) {
		SentCall sent(context, call, settings, secrets);
		sent.bind.secrets_resolved = again;
		auto result = make_shared_ptr<BoundFunction>(remote);
		od_error err = {};
		ThrowIfFailed(od_vgi_bind_function(remote->Handle(), &worker_call, &sent.bind, &result->bound, &err), err);
		auto count = od_vgi_bound_secret_count(result->bound);
		if (count == 0) {
			return result;
		}
		for (auto &secret :
		     Secrets(context, call.catalog, sent.bind.function, od_vgi_bound_secrets(result->bound), count)) {
			secrets.push_back(std::move(secret));
		}
		again = true;
	}
}

void OpenAggregateAtWorker(ClientContext &context, const FunctionCall &call, od_vgi_aggregate *&out) {
	auto worker_call = VgiTransaction::Get(context, call.catalog).Call(context);
	SentCall sent(context, call, Settings(context, call.catalog, call.function), DeclaredSecrets(context, call));
	od_error err = {};
	ThrowIfFailed(od_vgi_aggregate_open(call.catalog.Remote()->Handle(), &worker_call, &sent.bind, &out, &err), err);
}

} // namespace vgi
