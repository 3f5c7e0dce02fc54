//===----------------------------------------------------------------------===//
// openduck/functions.cpp: openduck_query and openduck_remote, a server's answer to a text as a table
//===----------------------------------------------------------------------===//
#include "duckdb/common/exception/transaction_exception.hpp"
#include "duckdb/function/table_function.hpp"
#include "duckdb/main/attached_database.hpp"
#include "duckdb/parser/parsed_expression_iterator.hpp"
#include "duckdb/parser/expression/function_expression.hpp"
#include "duckdb/parser/expression/subquery_expression.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/query_node/select_node.hpp"
#include "duckdb/parser/statement/explain_statement.hpp"
#include "duckdb/parser/statement/select_statement.hpp"
#include "duckdb/transaction/meta_transaction.hpp"
#include "openduck/catalog.hpp"
#include "openduck/scan.hpp"
#include "openduck/tls.hpp"
#include "openduck/transaction.hpp"

extern "C" {
#include "base/alloc.h"
#include "base/secret.h"
}

namespace openduck {

//===--------------------------------------------------------------------===//
// May a text be used as a subquery?
//===--------------------------------------------------------------------===//
//! Functions whose calls count: a subquery may run them less often, or not at all.
static bool IsVolatileName(const string &name) {
	static const case_insensitive_set_t NAMES = {
	    "nextval",      "currval",   "setseed",     "random",     "uuid",       "gen_random_uuid", "uuidv4",
	    "uuidv7",       "write_log", "sleep_ms",    "error",      "pg_sleep",   "openduck_query",  "openduck_remote",
	    "openduck_run", "query",     "query_table", "set_config", "checkpoint", "force_checkpoint"};
	return NAMES.find(name) != NAMES.end();
}

static bool IsSteady(const QueryNode &node);

static bool IsSteady(const ParsedExpression &expr) {
	if (expr.GetExpressionClass() == ExpressionClass::FUNCTION &&
	    IsVolatileName(expr.Cast<FunctionExpression>().function_name)) {
		return false;
	}
	if (expr.GetExpressionClass() == ExpressionClass::SUBQUERY &&
	    !IsSteady(*expr.Cast<SubqueryExpression>().subquery->node)) {
		return false;
	}
	bool steady = true;
	ParsedExpressionIterator::EnumerateChildren(expr,
	                                            [&](const ParsedExpression &child) { steady &= IsSteady(child); });
	return steady;
}

static bool IsSteady(const QueryNode &node) {
	bool steady = true;
	ParsedExpressionIterator::EnumerateQueryNodeChildren(
	    const_cast<QueryNode &>(node), // NOLINT: only looked at
	    [&](unique_ptr<ParsedExpression> &child) { steady &= IsSteady(*child); }, [&](TableRef &) {});
	return steady;
}

//! QUERY without its semicolon, if it is one SELECT that a larger query may hold; else empty.
static string AsSubquery(const string &query) {
	try {
		Parser parser;
		parser.ParseQuery(query);
		if (parser.statements.size() != 1 || parser.statements[0]->type != StatementType::SELECT_STATEMENT) {
			return string();
		}
		auto &select = parser.statements[0]->Cast<SelectStatement>();
		if (!select.named_param_map.empty() || !IsSteady(*select.node)) {
			return string();
		}
		if (select.node->type == QueryNodeType::SELECT_NODE) {
			auto &from = select.node->Cast<SelectNode>().from_table;
			if (from && from->type == TableReferenceType::SHOW_REF) {
				return string();
			}
		}
		auto end = query.find_last_not_of(" \t\r\n;");
		return query.substr(0, end + 1);
	} catch (std::exception &) {
		// The server may know a syntax that we do not.
		return string();
	}
}

//! The type of the statement in QUERY that certainly changes something; INVALID if none does, or none is understood.
static StatementType ChangingType(const string &query) {
	Parser parser;
	try {
		parser.ParseQuery(query);
	} catch (std::exception &) {
		return StatementType::INVALID_STATEMENT;
	}
	for (auto &statement : parser.statements) {
		reference<SQLStatement> run(*statement);
		if (run.get().type == StatementType::EXPLAIN_STATEMENT) {
			auto &explain = run.get().Cast<ExplainStatement>();
			if (explain.explain_type != ExplainType::EXPLAIN_ANALYZE) {
				continue;
			}
			run = *explain.stmt;
		}
		switch (run.get().type) {
		case StatementType::INSERT_STATEMENT:
		case StatementType::UPDATE_STATEMENT:
		case StatementType::DELETE_STATEMENT:
		case StatementType::MERGE_INTO_STATEMENT:
		case StatementType::CREATE_STATEMENT:
		case StatementType::DROP_STATEMENT:
		case StatementType::ALTER_STATEMENT:
		case StatementType::COPY_STATEMENT:
		case StatementType::COPY_DATABASE_STATEMENT:
		case StatementType::CALL_STATEMENT:
			return run.get().type;
		default:
			break;
		}
	}
	return StatementType::INVALID_STATEMENT;
}

//! QUERY is about to be sent as it is: a database or a transaction that is read-only refuses what changes something.
static void RequireWritable(ClientContext &context, OpenDuckCatalog &catalog, const string &query) {
	auto type = ChangingType(query);
	if (type == StatementType::INVALID_STATEMENT) {
		return;
	}
	if (catalog.GetAttached().IsReadOnly()) {
		throw InvalidInputException("Cannot execute statement of type \"%s\" on database \"%s\" which is attached in "
		                            "read-only mode!",
		                            StatementTypeToString(type), catalog.GetName());
	}
	if (MetaTransaction::Get(context).IsReadOnly()) {
		throw TransactionException("Cannot write to database \"%s\" - transaction is launched in read-only mode",
		                           catalog.GetName());
	}
}

unique_ptr<FunctionData> RemoteScanBind(RemoteScanSource source) {
	auto result = make_uniq<RemoteScanBindData>();
	if (source.relation.empty()) {
		result->subquery = AsSubquery(source.query);
	}
	result->source = std::move(source);
	return std::move(result);
}

//===--------------------------------------------------------------------===//
// The functions
//===--------------------------------------------------------------------===//
static string TextArgument(const TableFunctionBindInput &input, idx_t index, const char *function, const char *name) {
	auto &value = input.inputs[index];
	if (value.IsNull()) {
		throw BinderException("%s: %s cannot be NULL", function, name);
	}
	return value.GetValue<string>();
}

//! SOURCE has the remote database and the transaction.
static unique_ptr<FunctionData> BindQuery(ClientContext &context, RemoteScanSource source, string query,
                                          vector<LogicalType> &types, vector<string> &names) {
	auto txn = ScanTransaction(context, source);
	source.columns = source.remote->Describe(context, txn, query, nullptr);
	if (source.columns.empty()) {
		throw BinderException("the remote statement gives no columns");
	}
	vector<string> unique_names;
	for (auto &column : source.columns) {
		unique_names.push_back(column.name);
	}
	QueryResult::DeduplicateColumns(unique_names);
	for (idx_t i = 0; i < source.columns.size(); i++) {
		source.columns[i].name = unique_names[i];
		types.push_back(source.columns[i].type);
		names.push_back(unique_names[i]);
	}
	source.query = std::move(query);
	return RemoteScanBind(std::move(source));
}

static unique_ptr<FunctionData> QueryBind(ClientContext &context, TableFunctionBindInput &input,
                                          vector<LogicalType> &types, vector<string> &names) {
	auto alias = TextArgument(input, 0, "openduck_query", "the database");
	auto query = TextArgument(input, 1, "openduck_query", "the query");
	auto &catalog = CatalogOfAlias(context, alias);
	RequireWritable(context, catalog, query);
	auto &transaction = OpenDuckTransaction::Get(context, catalog);
	RemoteScanSource source;
	source.remote = catalog.SharedRemote();
	source.SetTransaction(transaction);
	auto result = BindQuery(context, std::move(source), std::move(query), types, names);
	if (result->Cast<RemoteScanBindData>().subquery.empty()) {
		transaction.RunsUnknown();
	}
	return result;
}

static unique_ptr<FunctionData> RemoteBind(ClientContext &context, TableFunctionBindInput &input,
                                           vector<LogicalType> &types, vector<string> &names) {
	auto endpoint = TextArgument(input, 0, "openduck_remote", "the endpoint");
	auto query = TextArgument(input, 2, "openduck_remote", "the query");
	string database;
	auto entry = input.named_parameters.find("database");
	if (entry != input.named_parameters.end() && !entry->second.IsNull()) {
		database = entry->second.GetValue<string>();
	}
	od_remote_options options = {};
	od_error err = {};
	if (od_endpoint_parse(od_slice_of(endpoint.data(), endpoint.size()), &options.endpoint, &err) != OD_OK) {
		ThrowError(err);
	}
	SetTls(options, TlsFiles::FromEnvironment());
	options.connect_timeout_ms = ConnectTimeoutMs(context);
	options.execute_timeout_ms = ExecuteTimeoutMs(context);
	auto &token = input.inputs[1];
	if (!token.IsNull()) {
		auto text = token.GetValue<string>();
		if (od_secret_set(&options.token, od_slice_of(text.data(), text.size()), &err) != OD_OK) {
			od_remote_options_release(&options);
			ThrowError(err);
		}
	}
	options.database = od_strdup(database.c_str());
	if (!options.database) {
		od_remote_options_release(&options);
		throw OutOfMemoryException("no memory for a database name");
	}
	RemoteScanSource source;
	source.remote = Remote::Create(options);
	return BindQuery(context, std::move(source), std::move(query), types, names);
}

void RegisterRemoteFunctions(ExtensionLoader &loader) {
	auto query = RemoteScanFunction();
	query.name = "openduck_query";
	query.arguments = {LogicalType::VARCHAR, LogicalType::VARCHAR};
	query.bind = QueryBind;
	loader.RegisterFunction(query);

	auto remote = RemoteScanFunction();
	remote.name = "openduck_remote";
	remote.arguments = {LogicalType::VARCHAR, LogicalType::VARCHAR, LogicalType::VARCHAR};
	remote.named_parameters["database"] = LogicalType::VARCHAR;
	remote.bind = RemoteBind;
	loader.RegisterFunction(remote);
}

} // namespace openduck
