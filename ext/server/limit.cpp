#include "server/limit.hpp"
#include "server/own_files.hpp"

#include "duckdb/catalog/catalog_entry/table_catalog_entry.hpp"
#include "duckdb/catalog/catalog_search_path.hpp"
#include "duckdb/function/scalar/sequence_utils.hpp"
#include "duckdb/main/attached_database.hpp"
#include "duckdb/main/client_context_state.hpp"
#include "duckdb/main/client_data.hpp"
#include "duckdb/main/config.hpp"
#include "duckdb/main/database_manager.hpp"
#include "duckdb/parser/parsed_data/drop_info.hpp"
#include "duckdb/parser/qualified_name.hpp"
#include "duckdb/planner/binder.hpp"
#include "duckdb/planner/expression/bound_columnref_expression.hpp"
#include "duckdb/planner/expression/bound_constant_expression.hpp"
#include "duckdb/planner/expression/bound_function_expression.hpp"
#include "duckdb/planner/expression/bound_operator_expression.hpp"
#include "duckdb/planner/expression/bound_subquery_expression.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/logical_operator_visitor.hpp"
#include "duckdb/planner/operator/logical_filter.hpp"
#include "duckdb/planner/operator/logical_get.hpp"
#include "duckdb/planner/operator/logical_reset.hpp"
#include "duckdb/planner/operator/logical_set.hpp"
#include "duckdb/planner/operator/logical_simple.hpp"
#include "duckdb/planner/planner_extension.hpp"
#include "duckdb/transaction/meta_transaction.hpp"

extern "C" {
#include "query/rights.h"
}

using namespace duckdb; // NOLINT

namespace openduck {
namespace {

constexpr const char *NAME = "openduck_rights";

vector<string> DatabasesInUse(ClientContext &context) {
	vector<string> names;
	if (context.transaction.HasActiveTransaction()) {
		for (auto &database : MetaTransaction::Get(context).OpenedTransactions()) {
			names.push_back(database.get().GetName());
		}
	}
	return names;
}

struct LimitState : public ClientContextState {
	const od_rights *rights = nullptr;
	//! The connection's file system, while it has limits
	optional_ptr<OwnFiles> files;
	//! The statement that was bound last lists catalogs, for which DuckDB goes through those of all databases
	bool lists = false;
	//! Databases that such statements have brought into the open transaction
	vector<string> listed;

	using ClientContextState::QueryEnd;
	void QueryEnd(ClientContext &context) override {
		if (lists) {
			listed = DatabasesInUse(context);
		}
		lists = false;
	}
	void TransactionBegin(MetaTransaction &, ClientContext &) override {
		listed.clear();
	}
};

//! Table functions that show nothing of any database, and change nothing
bool IsHarmless(const string &name) {
	static const unordered_set<string> NAMES = {"range",
	                                            "generate_series",
	                                            "unnest",
	                                            "repeat",
	                                            "repeat_row",
	                                            "json_each",
	                                            "json_tree",
	                                            "summary",
	                                            "test_all_types",
	                                            "test_vector_types",
	                                            "openduck_rows",
	                                            "openduck_stream",
	                                            "pragma_version",
	                                            "pragma_platform",
	                                            "pragma_user_agent",
	                                            "pragma_collations",
	                                            "duckdb_keywords",
	                                            "duckdb_settings",
	                                            "duckdb_optimizers",
	                                            "duckdb_extensions",
	                                            "duckdb_variables",
	                                            "icu_calendar_names",
	                                            "pg_timezone_names",
	                                            "duckdb_dependencies",
	                                            "duckdb_secret_types",
	                                            "duckdb_prepared_statements"};
	return NAMES.find(name) != NAMES.end();
}

//! Those whose rows each tell their database in the column database_name
bool IsListing(const string &name) {
	static const unordered_set<string> NAMES = {"duckdb_columns",
	                                            "duckdb_constraints",
	                                            "duckdb_databases",
	                                            "duckdb_functions",
	                                            "duckdb_indexes",
	                                            "duckdb_schemas",
	                                            "duckdb_sequences",
	                                            "duckdb_tables",
	                                            "duckdb_types",
	                                            "duckdb_views",
	                                            "duckdb_coordinate_systems",
	                                            "pragma_database_size",
	                                            "openduck_column_statistics"};
	return NAMES.find(name) != NAMES.end();
}

//! Those whose first argument is the name of a table or view
bool IsOfTable(const string &name) {
	return name == "pragma_table_info" || name == "pragma_show" || name == "pragma_storage_info" ||
	       name == "duckdb_table_sample";
}

//! DuckDB's own: functions and types, and what a session has for itself
bool IsOfNobody(const string &database) {
	return database == SYSTEM_CATALOG || database == TEMP_CATALOG;
}

bool Has(const od_rights *rights, const string &database) {
	return od_rights_database(rights, od_slice_of(database.data(), database.size()));
}

string TokenOf(const od_rights *rights) {
	return string("token '") + od_rights_name(rights) + "'";
}

//! Where the data of the lakes is that RIGHTS has
vector<string> FoldersOf(ClientContext &context, const od_rights *rights) {
	vector<string> folders;
	for (auto &database : DatabaseManager::Get(context).GetDatabases()) {
		auto &options = database->GetAttachOptions();
		auto folder = options.find("data_path");
		if (folder != options.end() && database->GetCatalog().GetCatalogType() == "ducklake" &&
		    Has(rights, database->GetName())) {
			folders.push_back(folder->second.ToString());
		}
	}
	return folders;
}

//! One statement's plan
class PlanGuard {
public:
	PlanGuard(ClientContext &context, Binder &binder, LimitState &state)
	    : context(context), binder(binder), state(state), rights(state.rights) {
	}

	void Check(BoundStatement &statement) {
		if (statement.plan && statement.plan->type == LogicalOperatorType::LOGICAL_TRANSACTION) {
			return; // a transaction that has been refused something can always be ended
		}
		state.lists = false;
		CheckProperties();
		CheckDatabasesInUse();
		if (statement.plan) {
			CheckOperator(statement.plan);
		}
	}

private:
	string Token() const {
		return TokenOf(rights);
	}
	void CheckRead(const string &database) const;
	void CheckProperties();
	void CheckDatabasesInUse() const;
	void CheckOperator(unique_ptr<LogicalOperator> &op);
	void CheckExpressions(LogicalOperator &op);
	void CheckExpression(Expression &expr);
	void CheckGet(unique_ptr<LogicalOperator> &op);
	void CheckTableArgument(const LogicalGet &get) const;
	void CheckSetting(const string &name, SetScope scope, const Value &value) const;
	void CheckSearchPath(const string &path) const;
	void CheckDrop(const LogicalSimple &op) const;
	void LeaveOutOthers(unique_ptr<LogicalOperator> &op);
	[[noreturn]] void Refuse(const string &what) const {
		throw PermissionException("%s has limits, and may not use %s", Token(), what);
	}

	ClientContext &context;
	Binder &binder;
	LimitState &state;
	const od_rights *rights;
};

void PlanGuard::CheckRead(const string &database) const {
	if (!IsOfNobody(database) && !Has(rights, database)) {
		throw PermissionException("%s has no right to database '%s'", Token(), database);
	}
}

//! What DuckDB's binder has found, in views and macros too
void PlanGuard::CheckProperties() {
	auto &properties = binder.GetStatementProperties();
	for (auto &entry : properties.read_databases) {
		CheckRead(entry.first);
	}
	for (auto &entry : properties.modified_databases) {
		if (entry.first == TEMP_CATALOG) {
			continue;
		}
		if (entry.first == SYSTEM_CATALOG) {
			Refuse("what changes the system's catalog");
		}
		CheckRead(entry.first);
		if (!od_rights_writes(rights)) {
			throw PermissionException("%s is read-only, and may not change database '%s'", Token(), entry.first);
		}
	}
}

//! What it has looked up in a catalog, such as a type or a macro, of which a plan tells nothing: a transaction has been opened there
void PlanGuard::CheckDatabasesInUse() const {
	for (auto &name : DatabasesInUse(context)) {
		if (std::find(state.listed.begin(), state.listed.end(), name) == state.listed.end()) {
			CheckRead(name);
		}
	}
}

void PlanGuard::CheckOperator(unique_ptr<LogicalOperator> &op) {
	switch (op->type) {
	case LogicalOperatorType::LOGICAL_PROJECTION:
	case LogicalOperatorType::LOGICAL_FILTER:
	case LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY:
	case LogicalOperatorType::LOGICAL_WINDOW:
	case LogicalOperatorType::LOGICAL_UNNEST:
	case LogicalOperatorType::LOGICAL_LIMIT:
	case LogicalOperatorType::LOGICAL_ORDER_BY:
	case LogicalOperatorType::LOGICAL_TOP_N:
	case LogicalOperatorType::LOGICAL_DISTINCT:
	case LogicalOperatorType::LOGICAL_SAMPLE:
	case LogicalOperatorType::LOGICAL_PIVOT:
	case LogicalOperatorType::LOGICAL_GET:
	case LogicalOperatorType::LOGICAL_CHUNK_GET:
	case LogicalOperatorType::LOGICAL_DELIM_GET:
	case LogicalOperatorType::LOGICAL_EXPRESSION_GET:
	case LogicalOperatorType::LOGICAL_DUMMY_SCAN:
	case LogicalOperatorType::LOGICAL_EMPTY_RESULT:
	case LogicalOperatorType::LOGICAL_CTE_REF:
	case LogicalOperatorType::LOGICAL_JOIN:
	case LogicalOperatorType::LOGICAL_DELIM_JOIN:
	case LogicalOperatorType::LOGICAL_COMPARISON_JOIN:
	case LogicalOperatorType::LOGICAL_ANY_JOIN:
	case LogicalOperatorType::LOGICAL_CROSS_PRODUCT:
	case LogicalOperatorType::LOGICAL_POSITIONAL_JOIN:
	case LogicalOperatorType::LOGICAL_ASOF_JOIN:
	case LogicalOperatorType::LOGICAL_DEPENDENT_JOIN:
	case LogicalOperatorType::LOGICAL_UNION:
	case LogicalOperatorType::LOGICAL_EXCEPT:
	case LogicalOperatorType::LOGICAL_INTERSECT:
	case LogicalOperatorType::LOGICAL_RECURSIVE_CTE:
	case LogicalOperatorType::LOGICAL_MATERIALIZED_CTE:
	case LogicalOperatorType::LOGICAL_EXPLAIN:
	// What these change, the properties say.
	case LogicalOperatorType::LOGICAL_INSERT:
	case LogicalOperatorType::LOGICAL_DELETE:
	case LogicalOperatorType::LOGICAL_UPDATE:
	case LogicalOperatorType::LOGICAL_MERGE_INTO:
	case LogicalOperatorType::LOGICAL_ALTER:
	case LogicalOperatorType::LOGICAL_CREATE_TABLE:
	case LogicalOperatorType::LOGICAL_CREATE_INDEX:
	case LogicalOperatorType::LOGICAL_CREATE_SEQUENCE:
	case LogicalOperatorType::LOGICAL_CREATE_VIEW:
	case LogicalOperatorType::LOGICAL_CREATE_SCHEMA:
	case LogicalOperatorType::LOGICAL_CREATE_MACRO:
	case LogicalOperatorType::LOGICAL_CREATE_TYPE:
		break;
	// What is prepared was looked at by itself, and is again when it is bound anew.
	case LogicalOperatorType::LOGICAL_PREPARE:
		break;
	case LogicalOperatorType::LOGICAL_EXECUTE:
		state.lists = true; // perhaps
		break;
	case LogicalOperatorType::LOGICAL_DROP:
		CheckDrop(op->Cast<LogicalSimple>());
		break;
	case LogicalOperatorType::LOGICAL_SET: {
		auto &set = op->Cast<LogicalSet>();
		CheckSetting(set.name, set.scope, set.value);
		break;
	}
	case LogicalOperatorType::LOGICAL_RESET: {
		auto &reset = op->Cast<LogicalReset>();
		CheckSetting(reset.name, reset.scope, Value());
		break;
	}
	default: // ATTACH, COPY to files, PRAGMA, CHECKPOINT, secrets, and whatever is not known here
		Refuse(StringUtil::Replace(LogicalOperatorToString(op->type), "_", " "));
	}
	CheckExpressions(*op);
	for (auto &child : op->children) {
		CheckOperator(child);
	}
	if (op->type == LogicalOperatorType::LOGICAL_GET) {
		CheckGet(op);
	}
}

void PlanGuard::CheckExpressions(LogicalOperator &op) {
	LogicalOperatorVisitor::EnumerateExpressions(op, [&](unique_ptr<Expression> *expr) { CheckExpression(**expr); });
}

void PlanGuard::CheckExpression(Expression &expr) {
	if (expr.GetExpressionClass() == ExpressionClass::BOUND_FUNCTION) {
		auto &function = expr.Cast<BoundFunctionExpression>();
		if (function.function.name == "write_log") {
			Refuse("the function 'write_log'");
		}
		if (function.function.name == "currval" && function.bind_info) {
			CheckRead(function.bind_info->Cast<NextvalBindData>().sequence.ParentCatalog().GetName());
		}
	}
	if (expr.GetExpressionClass() == ExpressionClass::BOUND_SUBQUERY) {
		auto &subquery = expr.Cast<BoundSubqueryExpression>();
		if (subquery.subquery.plan) {
			CheckOperator(subquery.subquery.plan);
		}
	}
	ExpressionIterator::EnumerateChildren(expr, [&](Expression &child) { CheckExpression(child); });
}

void PlanGuard::CheckGet(unique_ptr<LogicalOperator> &op) {
	auto &get = op->Cast<LogicalGet>();
	auto table = get.GetTable();
	auto name = StringUtil::Lower(get.function.name);
	if (IsOfTable(name)) {
		CheckTableArgument(get);
	} else if (table) {
		CheckRead(table->ParentCatalog().GetName());
	} else if (IsListing(name)) {
		state.lists = true;
		if (!od_rights_every_database(rights)) {
			LeaveOutOthers(op);
		}
	} else if (!IsHarmless(name)) {
		Refuse("the table function '" + get.function.name + "'");
	}
}

//! The function resolves the name in the same way, in the same transaction
void PlanGuard::CheckTableArgument(const LogicalGet &get) const {
	if (get.parameters.empty() || get.parameters[0].IsNull()) {
		Refuse("the table function '" + get.function.name + "' without a name");
	}
	auto name = QualifiedName::Parse(get.parameters[0].ToString());
	Binder::BindSchemaOrCatalog(context, name.catalog, name.schema);
	auto &entry = Catalog::GetEntry(context, CatalogType::TABLE_ENTRY, name.catalog, name.schema, name.name);
	CheckRead(entry.ParentCatalog().GetName());
}

//! Puts a filter above a listing
void PlanGuard::LeaveOutOthers(unique_ptr<LogicalOperator> &op) {
	auto &get = op->Cast<LogicalGet>();
	idx_t column = 0;
	while (column < get.names.size() && get.names[column] != "database_name") {
		column++;
	}
	if (column == get.names.size()) {
		Refuse("the table function '" + get.function.name + "'");
	}
	auto position = get.GetColumnIds().size();
	get.AddColumnId(column);
	auto among = make_uniq<BoundOperatorExpression>(ExpressionType::COMPARE_IN, LogicalType::BOOLEAN);
	among->children.push_back(make_uniq<BoundColumnRefExpression>("database_name", get.returned_types[column],
	                                                              ColumnBinding(get.table_index, position)));
	among->children.push_back(make_uniq<BoundConstantExpression>(Value(SYSTEM_CATALOG)));
	among->children.push_back(make_uniq<BoundConstantExpression>(Value(TEMP_CATALOG)));
	for (auto &database : DatabaseManager::Get(context).GetDatabases(context)) {
		if (Has(rights, database->GetName())) {
			among->children.push_back(make_uniq<BoundConstantExpression>(Value(database->GetName())));
		}
	}
	auto filter = make_uniq<LogicalFilter>(std::move(among));
	filter->children.push_back(std::move(op));
	op = std::move(filter);
}

void PlanGuard::CheckSetting(const string &name, SetScope scope, const Value &value) const {
	// What the engine sets itself, of results.
	static const unordered_set<string> OWN = {"arrow_lossless_conversion", "produce_arrow_string_view",
	                                          "arrow_output_list_view", "arrow_output_version",
	                                          "arrow_large_buffer_size"};
	auto setting = StringUtil::Lower(name);
	if (scope == SetScope::VARIABLE) {
		return;
	}
	if (scope == SetScope::GLOBAL) {
		Refuse("SET GLOBAL");
	}
	if (setting == "schema" || setting == "search_path") {
		if (!value.IsNull()) {
			CheckSearchPath(value.ToString());
		}
	} else if (scope != SetScope::SESSION || OWN.find(setting) == OWN.end()) {
		Refuse("SET of '" + setting + "'");
	}
}

void PlanGuard::CheckSearchPath(const string &path) const {
	for (auto &entry : CatalogSearchEntry::ParseList(path)) {
		auto &name = entry.catalog.empty() ? entry.schema : entry.catalog;
		if (DatabaseManager::Get(context).GetDatabase(context, name)) {
			CheckRead(name);
		}
	}
}

void PlanGuard::CheckDrop(const LogicalSimple &op) const {
	auto type = op.info->Cast<DropInfo>().type;
	if (type == CatalogType::SECRET_ENTRY || type == CatalogType::DATABASE_ENTRY) {
		Refuse("DROP of secrets and databases");
	}
}

void PostBind(PlannerExtensionInput &input, BoundStatement &statement) {
	auto state = input.context.registered_state->Get<LimitState>(NAME);
	if (state && state->rights) {
		PlanGuard(input.context, input.binder, *state).Check(statement);
	}
}

} // namespace

void InstallLimit(ClientContext &context) {
	PlannerExtension extension;
	extension.post_bind_function = PostBind;
	PlannerExtension::Register(DBConfig::GetConfig(context), std::move(extension));
}

void SetLimit(ClientContext &context, const od_rights *rights) {
	auto state = context.registered_state->GetOrCreate<LimitState>(NAME);
	auto &client = ClientData::Get(context);
	state->rights = rights;
	if (!rights) {
		if (state->files) {
			client.client_file_system = state->files->Release();
			state->files = nullptr;
		}
		return;
	}
	auto files = make_uniq<OwnFiles>(std::move(client.client_file_system), TokenOf(rights), FoldersOf(context, rights),
	                                 od_rights_writes(rights));
	state->files = files.get();
	client.client_file_system = std::move(files);
	// What the engine has opened itself
	state->listed = DatabasesInUse(context);
	if (!Has(rights, DatabaseManager::GetDefaultDatabase(context))) {
		// Names without a database mean none of it
		client.catalog_search_path->Set(CatalogSearchEntry(TEMP_CATALOG, DEFAULT_SCHEMA),
		                                CatalogSetPathType::SET_DIRECTLY);
	}
}

} // namespace openduck
