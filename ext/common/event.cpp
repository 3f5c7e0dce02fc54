#include "common/event.hpp"

#include "duckdb/common/types/timestamp.hpp"
#include "duckdb/logging/log_manager.hpp"
#include "duckdb/logging/log_type.hpp"
#include "duckdb/logging/logger.hpp"

#include <cstdio>

namespace openduck {

static constexpr const char *LOG_TYPE = "VGI";
static constexpr LogLevel LOG_LEVEL = LogLevel::LOG_INFO;

void RegisterEvents(DatabaseInstance &db) {
	if (db.GetLogManager().LookupLogType(LOG_TYPE)) {
		return;
	}
	auto type = LogicalType::STRUCT(
	    {{"event", LogicalType::VARCHAR}, {"info", LogicalType::MAP(LogicalType::VARCHAR, LogicalType::VARCHAR)}});
	db.GetLogManager().RegisterLogType(make_uniq<LogType>(LOG_TYPE, LOG_LEVEL, std::move(type)));
}

static string MessageText(const string &event, const vector<std::pair<string, string>> &fields) {
	vector<Value> keys, values;
	for (auto &field : fields) {
		keys.emplace_back(field.first);
		values.emplace_back(field.second);
	}
	auto info = Value::MAP(LogicalType::VARCHAR, LogicalType::VARCHAR, std::move(keys), std::move(values));
	return Value::STRUCT({{"event", Value(event)}, {"info", std::move(info)}}).ToString();
}

static void WriteToStderr(const string &event, const vector<std::pair<string, string>> &fields) {
	auto asked = std::getenv("VGI_STDERR_LOG"); // NOLINT: read while a statement runs, never written
	if (!asked || string(asked) != "1") {
		return;
	}
	auto line = Timestamp::ToString(Timestamp::GetCurrentTimestamp()) + " [VGI] " + event;
	for (auto &field : fields) {
		line += " " + field.first + "=" + StringUtil::Replace(field.second, "\n", " ");
	}
	line += "\n";
	std::fputs(line.c_str(), stderr);
}

void LogEvent(DatabaseInstance &db, optional_ptr<ClientContext> context, const string &event,
              const vector<std::pair<string, string>> &fields) {
	auto &logger = context ? Logger::Get(*context) : Logger::Get(db);
	if (logger.ShouldLog(LOG_TYPE, LOG_LEVEL)) {
		logger.WriteLog(LOG_TYPE, LOG_LEVEL, MessageText(event, fields));
	}
	WriteToStderr(event, fields);
}

} // namespace openduck
