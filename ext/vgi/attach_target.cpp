#include "vgi/attach_target.hpp"

#include "duckdb/common/exception/binder_exception.hpp"
#include "duckdb/common/string_util.hpp"

namespace vgi {

//! Of %XX, as in a URL's query; a plus stays one.
static string Decode(const string &text) {
	return StringUtil::URLDecode(text);
}

void AttachTarget::ReadQuery(const string &query, case_insensitive_map_t<Value> &values) {
	for (auto &pair : StringUtil::Split(query, '&')) {
		auto equals = pair.find('=');
		auto key = StringUtil::Lower(Decode(pair.substr(0, equals)));
		if (key.empty() || equals == string::npos) {
			throw BinderException("VGI ATTACH: '%s' behind the '?' of the path is no option=value", pair);
		}
		values[key] = Value(Decode(pair.substr(equals + 1)));
	}
}

AttachTarget::AttachTarget(const string &path, const AttachOptions &options) {
	case_insensitive_map_t<Value> values;
	auto question = path.find('?');
	if (question != string::npos) {
		ReadQuery(path.substr(question + 1), values);
	}
	name = path.substr(0, question);
	for (auto &option : options.options) {
		values[StringUtil::Lower(option.first)] = option.second;
	}
	for (auto &value : values) {
		Read(value.first, value.second);
	}
	if (location.empty() && question == string::npos && values.find("location") == values.end()) {
		// The path is the place, and the worker tells the name.
		location = std::move(name);
		name = string();
	}
	if (location.empty()) {
		throw BinderException("VGI ATTACH requires LOCATION option specifying the worker path");
	}
}

static bool Boolean(const string &key, const Value &value) {
	Value result;
	string message;
	if (value.IsNull() || !value.DefaultTryCastAs(LogicalType::BOOLEAN, result, &message)) {
		throw BinderException("VGI ATTACH: %s must be true or false", StringUtil::Upper(key));
	}
	return BooleanValue::Get(result);
}

void AttachTarget::Read(const string &key, const Value &value) {
	auto text = value.IsNull() ? string() : value.ToString();
	if (key == "location" || key == "path") {
		location = text;
	} else if (key == "bearer_token") {
		bearer_token = text;
	} else if (key == "attach_companions") {
		attach_companions = Boolean(key, value);
	} else if (key == "attach_companion_secrets") {
		attach_companion_secrets = Boolean(key, value);
	} else if (key == "companions_read_only") {
		companions_read_only = Boolean(key, value);
	} else if (key == "worker_secrets") {
		worker_secrets = Boolean(key, value);
	} else if (key == "secrets") {
		secrets = Boolean(key, value);
	} else if (key == "data_version_spec") {
		data_version_spec = text;
	} else if (key == "implementation_version") {
		implementation_version = text;
	} else {
		others[key] = value;
	}
}

} // namespace vgi
