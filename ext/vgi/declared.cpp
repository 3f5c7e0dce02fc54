#include "vgi/declared.hpp"

#include "duckdb/function/table/arrow.hpp"
#include "duckdb/main/config.hpp"
#include "duckdb/main/secret/secret_manager.hpp"

namespace vgi {

static constexpr const char *EXTENSION = "vgi";

static LogicalType DeclaredType(ClientContext &context, const od_vgi_option_spec &spec) {
	ArrowTableSchema columns;
	ArrowTableFunction::PopulateArrowTableSchema(context, columns, spec.type);
	return columns.GetTypes()[0];
}

//===--------------------------------------------------------------------===//
// Options
//===--------------------------------------------------------------------===//
static const od_vgi_option_spec *FindOption(const od_vgi_catalogs &catalogs, const string &catalog,
                                            const string &name) {
	for (idx_t i = 0; i < catalogs.count; i++) {
		auto &item = catalogs.items[i];
		for (idx_t k = 0; Text(item.name) == catalog && k < item.option_count; k++) {
			if (StringUtil::CIEquals(Text(item.options[k].name), name)) {
				return &item.options[k];
			}
		}
	}
	return nullptr;
}

vector<NamedValue> WorkerOptions(ClientContext &context, VgiRemote &remote, const AttachTarget &target,
                                 case_insensitive_set_t &secret) {
	vector<NamedValue> result;
	if (target.others.empty()) {
		return result;
	}
	Answer<od_vgi_catalogs> catalogs;
	od_error err = {};
	ThrowIfFailed(od_vgi_list_catalogs(remote.Handle(), VgiRemote::Interrupt(context), &catalogs.data, &err), err);
	for (auto &other : target.others) {
		auto spec = FindOption(catalogs.data, target.name, other.first);
		if (!spec) {
			throw BinderException("Unknown ATTACH option \"%s\" for VGI catalog \"%s\"", other.first, target.name);
		}
		auto type = DeclaredType(context, *spec);
		Value value;
		string message;
		if (!other.second.TryCastAs(context, type, value, &message)) {
			throw BinderException("ATTACH option \"%s\" for VGI catalog \"%s\" must be of the type %s", other.first,
			                      target.name, type.ToString());
		}
		result.push_back({Text(spec->name), std::move(value)});
		if (spec->secret) {
			secret.insert(other.first);
		}
	}
	return result;
}

//===--------------------------------------------------------------------===//
// Settings
//===--------------------------------------------------------------------===//
case_insensitive_set_t RegisterSettings(ClientContext &context, VgiStorageInfo &info, const string &catalog,
                                        const od_vgi_attached &attached) {
	auto &config = DBConfig::GetConfig(context);
	case_insensitive_set_t result;
	for (idx_t i = 0; i < attached.setting_count; i++) {
		auto &spec = attached.settings[i];
		auto name = StringUtil::Lower(Text(spec.name));
		auto type = DeclaredType(context, spec);
		lock_guard<mutex> guard(info.settings_lock);
		auto known = info.settings.find(name);
		bool taken = DBConfig::GetOptionByName(name) || config.HasExtensionOption(name);
		if (known == info.settings.end() && taken) {
			throw BinderException("VGI catalog \"%s\" declares a setting '%s', which is not its own", catalog, name);
		}
		if (known != info.settings.end() && known->second != type) {
			throw BinderException(
			    "VGI catalog \"%s\" declares a setting '%s' of the type %s, which is one of the type %s", catalog, name,
			    type.ToString(), known->second.ToString());
		}
		if (known == info.settings.end()) {
			auto values = ReadValues(context, spec.default_value);
			config.AddExtensionOption(name, Text(spec.description), type,
			                          values.empty() ? Value(type) : values[0].value.DefaultCastAs(type));
			info.settings[name] = type;
		}
		result.insert(name);
	}
	return result;
}

//===--------------------------------------------------------------------===//
// Types of secrets
//===--------------------------------------------------------------------===//
static unique_ptr<BaseSecret> CreateSecret(ClientContext &, CreateSecretInput &input) {
	auto result = make_uniq<KeyValueSecret>(input.scope, input.type, input.provider, input.name);
	for (auto &option : input.options) {
		auto key = StringUtil::Lower(option.first);
		result->secret_map[key] = option.second;
		result->redact_keys.insert(key);
	}
	return std::move(result);
}

//! Types that an extension of DuckDB's may register later, with secrets that are none of a worker's.
static bool IsOthers(const string &type) {
	static const case_insensitive_set_t OTHERS = {
	    "s3",       "r2",        "gcs",      "aws",     "http",          "huggingface", "azure", "azure_blob",
	    "postgres", "mysql",     "ducklake", "iceberg", "unity_catalog", "openduck",    "uc",    "openduck_storage",
	    "sqlite",   "motherduck"};
	return OTHERS.count(type) > 0;
}

case_insensitive_set_t RegisterSecretTypes(ClientContext &context, const od_vgi_attached &attached) {
	auto &manager = SecretManager::Get(context);
	case_insensitive_set_t result, others;
	for (auto &known : manager.AllSecretTypes()) {
		(known.extension == EXTENSION ? result : others).insert(known.name);
	}
	case_insensitive_set_t own;
	for (idx_t i = 0; i < attached.secret_type_count; i++) {
		auto &told = attached.secret_types[i];
		auto name = StringUtil::Lower(Text(told.name));
		if (others.count(name) > 0 || IsOthers(name)) {
			continue;
		}
		if (result.count(name) == 0) {
			SecretType type;
			type.name = name;
			type.deserializer = KeyValueSecret::Deserialize<KeyValueSecret>;
			type.default_provider = "config";
			type.extension = EXTENSION;
			manager.RegisterSecretType(type);
			CreateSecretFunction function = {name, "config", CreateSecret, {}};
			ArrowTableSchema keys;
			ArrowTableFunction::PopulateArrowTableSchema(context, keys, told.parameters);
			for (idx_t k = 0; k < keys.GetNames().size(); k++) {
				function.named_parameters[keys.GetNames()[k]] = keys.GetTypes()[k];
			}
			manager.RegisterSecretFunction(std::move(function), OnCreateConflict::IGNORE_ON_CONFLICT);
		}
		own.insert(name);
	}
	return own;
}

} // namespace vgi
