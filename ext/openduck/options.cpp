//===----------------------------------------------------------------------===//
// openduck/options.cpp: the settings of the extension
//===----------------------------------------------------------------------===//
#include "openduck/remote.hpp"
#include "openduck/scan.hpp"

#include "common/log_sink.hpp"
#include "duckdb/common/types/interval.hpp"

namespace openduck {

static constexpr const char *CONNECT_TIMEOUT = "openduck_connect_timeout";
static constexpr const char *EXECUTE_TIMEOUT = "openduck_execute_timeout";
static constexpr const char *FETCH_STREAMS = "openduck_fetch_streams";
static constexpr const char *PUSHDOWN = "openduck_pushdown";

//! Milliseconds ("5000") or an interval ("5 seconds").
static int64_t ParseTimeout(const char *name, const Value &value) {
	if (value.IsNull()) {
		throw InvalidInputException("%s cannot be NULL", name);
	}
	auto text = value.ToString();
	int64_t ms;
	Value number;
	string error;
	if (value.DefaultTryCastAs(LogicalType::BIGINT, number, &error, true)) {
		ms = number.GetValue<int64_t>();
	} else {
		Value interval;
		if (!value.DefaultTryCastAs(LogicalType::INTERVAL, interval, &error, true)) {
			throw InvalidInputException("%s: '%s' is neither a number of milliseconds nor an interval", name, text);
		}
		ms = Interval::GetMilli(interval.GetValue<interval_t>());
	}
	if (ms < 0 || ms > int64_t(INT32_MAX)) {
		throw InvalidInputException("%s: '%s' is not between 0 and %d milliseconds", name, text, INT32_MAX);
	}
	return ms;
}

static void CheckConnectTimeout(ClientContext &, SetScope, Value &parameter) {
	ParseTimeout(CONNECT_TIMEOUT, parameter);
}

static void CheckExecuteTimeout(ClientContext &, SetScope, Value &parameter) {
	ParseTimeout(EXECUTE_TIMEOUT, parameter);
}

static constexpr idx_t MAX_FETCH_STREAMS = 64;
//! Without a choice of the user's.
static constexpr idx_t USUAL_FETCH_STREAMS = 4;

static void CheckFetchStreams(ClientContext &, SetScope, Value &parameter) {
	if (parameter.IsNull() || parameter.GetValue<uint64_t>() > MAX_FETCH_STREAMS) {
		throw InvalidInputException("%s: '%s' is not between 0 and %llu", FETCH_STREAMS, parameter.ToString(),
		                            MAX_FETCH_STREAMS);
	}
}

idx_t FetchStreams(ClientContext &context, idx_t threads) {
	Value value;
	auto wanted = context.TryGetCurrentSetting(FETCH_STREAMS, value) ? value.GetValue<uint64_t>() : 0;
	if (wanted > 0) {
		return MinValue(wanted, threads);
	}
	// With few threads the server's own work mostly bounds a result, and streams wait for it in each other's way.
	return MaxValue<idx_t>(1, MinValue(USUAL_FETCH_STREAMS, threads / 2));
}

static PushdownLevel ParsePushdown(const Value &value) {
	auto text = value.IsNull() ? string() : StringUtil::Lower(value.ToString());
	if (text == "off") {
		return PushdownLevel::OFF;
	}
	if (text == "scan") {
		return PushdownLevel::SCAN;
	}
	if (text == "full") {
		return PushdownLevel::FULL;
	}
	throw InvalidInputException("%s: '%s' is none of 'off', 'scan' and 'full'", PUSHDOWN,
	                            value.IsNull() ? "NULL" : value.ToString());
}

static void CheckPushdown(ClientContext &, SetScope, Value &parameter) {
	ParsePushdown(parameter);
}

PushdownLevel CurrentPushdown(ClientContext &context) {
	Value value;
	return context.TryGetCurrentSetting(PUSHDOWN, value) ? ParsePushdown(value) : PushdownLevel::FULL;
}

static int64_t CurrentTimeout(ClientContext &context, const char *name) {
	Value value;
	if (!context.TryGetCurrentSetting(name, value) || value.IsNull()) {
		return 0;
	}
	return ParseTimeout(name, value);
}

int64_t ConnectTimeoutMs(ClientContext &context) {
	return CurrentTimeout(context, CONNECT_TIMEOUT);
}

int64_t ExecuteTimeoutMs(ClientContext &context) {
	auto ms = CurrentTimeout(context, EXECUTE_TIMEOUT);
	return ms == 0 ? -1 : ms;
}

void RegisterOptions(ExtensionLoader &loader) {
	SilenceLog();
	auto &config = DBConfig::GetConfig(loader.GetDatabaseInstance());
	config.AddExtensionOption(CONNECT_TIMEOUT,
	                          "longest wait for a connection to an OpenDuck server: milliseconds or an interval",
	                          LogicalType::VARCHAR, Value("5 seconds"), CheckConnectTimeout);
	config.AddExtensionOption(
	    EXECUTE_TIMEOUT,
	    "longest wait for the next rows of an OpenDuck server: milliseconds or an interval; 0: no limit",
	    LogicalType::VARCHAR, Value("5 minutes"), CheckExecuteTimeout);
	config.AddExtensionOption(FETCH_STREAMS,
	                          "over how many streams a large result of an OpenDuck server may be fetched at once; 0: "
	                          "one for two threads, up to 4",
	                          LogicalType::UBIGINT, Value::UBIGINT(0), CheckFetchStreams);
	config.AddExtensionOption(PUSHDOWN,
	                          "what an OpenDuck server does in the client's place: 'off': choose columns; 'scan': also "
	                          "leave out rows of a table; 'full': "
	                          "also joins, groups and whatever else is exactly the same there",
	                          LogicalType::VARCHAR, Value("full"), CheckPushdown);
}

} // namespace openduck
