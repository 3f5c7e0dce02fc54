#include "openduck/write_copy.hpp"

#include "openduck/catalog.hpp"
#include "openduck/forward_sql.hpp"
#include "openduck/scan.hpp"
#include "openduck/transaction.hpp"

#include "duckdb/execution/physical_plan_generator.hpp"
#include "duckdb/parser/constraints/foreign_key_constraint.hpp"
#include "duckdb/parser/keyword_helper.hpp"
#include "duckdb/parser/expression/columnref_expression.hpp"
#include "duckdb/parser/expression/subquery_expression.hpp"
#include "duckdb/parser/parsed_data/create_table_info.hpp"
#include "duckdb/parser/parsed_data/create_view_info.hpp"
#include "duckdb/parser/parsed_expression_iterator.hpp"
#include "duckdb/parser/query_node.hpp"
#include "duckdb/parser/statement/create_statement.hpp"
#include "duckdb/parser/statement/select_statement.hpp"
#include "duckdb/parser/tableref/basetableref.hpp"
#include "duckdb/planner/operator/logical_copy_database.hpp"
#include "duckdb/planner/operator/logical_extension_operator.hpp"
#include "duckdb/planner/planner_extension.hpp"

namespace openduck {

//===--------------------------------------------------------------------===//
// The statements
//===--------------------------------------------------------------------===//
static string Identifier(const string &name) {
	return KeywordHelper::WriteQuoted(name, '"');
}

static void AddComment(const string &what, const string &name, const Value &comment, vector<string> &statements) {
	if (!comment.IsNull()) {
		statements.push_back("COMMENT ON " + what + " " + name + " IS " +
		                     KeywordHelper::WriteQuoted(StringValue::Get(comment), '\''));
	}
}

//! What a CREATE statement does not say.
static void AddComments(CreateInfo &info, vector<string> &statements) {
	if (info.type != CatalogType::TABLE_ENTRY) {
		return;
	}
	auto &table = info.Cast<CreateTableInfo>();
	auto name = Identifier(info.schema) + "." + Identifier(table.table);
	AddComment("TABLE", name, info.comment, statements);
	for (auto &column : table.columns.Logical()) {
		AddComment("COLUMN", name + "." + Identifier(column.Name()), column.Comment(), statements);
	}
}

//! Views that name the database they are in: the copy is to name the copies. Which database that is is told by the tables
//! that are copied from it.
class Unqualifier {
public:
	explicit Unqualifier(const vector<unique_ptr<CreateInfo>> &entries) {
		for (auto &entry : entries) {
			if (entry->type == CatalogType::TABLE_ENTRY) {
				relations.insert(entry->schema + "." + entry->Cast<CreateTableInfo>().table);
			} else if (entry->type == CatalogType::VIEW_ENTRY) {
				relations.insert(entry->schema + "." + entry->Cast<CreateViewInfo>().view_name);
			}
		}
	}

	void Query(QueryNode &node) {
		ParsedExpressionIterator::EnumerateQueryNodeChildren(
		    node, [&](unique_ptr<ParsedExpression> &child) { Expression(*child); }, [&](TableRef &ref) { Table(ref); });
	}

private:
	void Table(TableRef &ref) {
		if (ref.type != TableReferenceType::BASE_TABLE) {
			return;
		}
		auto &table = ref.Cast<BaseTableRef>();
		if (!table.catalog_name.empty() && relations.count(table.schema_name + "." + table.table_name)) {
			table.catalog_name.clear();
		}
	}

	void Expression(ParsedExpression &expression) {
		if (expression.GetExpressionClass() == ExpressionClass::COLUMN_REF) {
			auto &names = expression.Cast<ColumnRefExpression>().column_names;
			if (names.size() > 3 && relations.count(names[1] + "." + names[2])) {
				names.erase(names.begin());
			}
		} else if (expression.GetExpressionClass() == ExpressionClass::SUBQUERY) {
			Query(*expression.Cast<SubqueryExpression>().subquery->node);
		}
		ParsedExpressionIterator::EnumerateChildren(expression,
		                                            [&](unique_ptr<ParsedExpression> &child) { Expression(*child); });
	}

	case_insensitive_set_t relations;
};

//! ENTRIES as statements of the server, in the order in which they can run.
static string DefinitionsSql(OpenDuckCatalog &catalog, vector<unique_ptr<CreateInfo>> entries) {
	vector<string> statements;
	Unqualifier unqualifier(entries);
	for (auto &entry : entries) {
		if (entry->type == CatalogType::VIEW_ENTRY && entry->Cast<CreateViewInfo>().query) {
			unqualifier.Query(*entry->Cast<CreateViewInfo>().query->node);
		}
		entry->catalog = catalog.RemoteDatabase();
		CreateStatement statement;
		statement.info = std::move(entry);
		statements.push_back(StatementToSql(statement));
		AddComments(*statement.info, statements);
	}
	string result;
	for (auto &statement : statements) {
		StringUtil::RTrim(statement);
		result += statement + (!statement.empty() && statement.back() == ';' ? "\n" : ";\n");
	}
	return result;
}

//===--------------------------------------------------------------------===//
// The plan
//===--------------------------------------------------------------------===//
namespace {

class PhysicalDefine : public PhysicalOperator {
public:
	static constexpr const PhysicalOperatorType TYPE = PhysicalOperatorType::EXTENSION;

	PhysicalDefine(PhysicalPlan &plan, vector<LogicalType> types, OpenDuckCatalog &catalog, string sql)
	    : PhysicalOperator(plan, TYPE, std::move(types), 1), catalog(catalog), sql(std::move(sql)) {
	}
	string GetName() const override {
		return "OPENDUCK_COPY_DATABASE";
	}
	bool IsSource() const override {
		return true;
	}

protected:
	SourceResultType GetDataInternal(ExecutionContext &context, DataChunk &chunk,
	                                 OperatorSourceInput &input) const override {
		auto &transaction = OpenDuckTransaction::Get(context.client, catalog);
		if (!sql.empty()) {
			auto txn = transaction.Server(context.client, ServerUse::STEPS);
			transaction.Wrote(false);
			auto stream = RemoteStream::Start(&context.client, catalog.GetRemote(), txn, sql, 0, false);
			RemotePayload payload;
			while (stream->Next(payload)) {
				od_msg_unref(payload.owner);
			}
			transaction.Wrote(true);
		}
		return SourceResultType::FINISHED;
	}

private:
	OpenDuckCatalog &catalog;
	const string sql;
};

class LogicalDefine : public LogicalExtensionOperator {
public:
	LogicalDefine(OpenDuckCatalog &catalog, string sql, vector<LogicalType> types_p)
	    : catalog(catalog), sql(std::move(sql)), result_types(std::move(types_p)) {
	}
	PhysicalOperator &CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) override {
		return planner.Make<PhysicalDefine>(types, catalog, std::move(sql));
	}
	vector<ColumnBinding> GetColumnBindings() override {
		return {ColumnBinding(0, 0)};
	}
	string GetExtensionName() const override {
		return "openduck";
	}

protected:
	void ResolveTypes() override {
		types = result_types;
	}

private:
	OpenDuckCatalog &catalog;
	string sql;
	vector<LogicalType> result_types;
};

} // namespace

//! DuckDB finds the other table of a foreign key by a name, which here is that of a table of the default database; it need
//! not if the columns' numbers are there, as they are in its own tables.
static void ResolveForeignKeys(const vector<unique_ptr<CreateInfo>> &entries) {
	auto find = [&](const string &schema, const string &name) -> optional_ptr<CreateTableInfo> {
		for (auto &entry : entries) {
			if (entry->type == CatalogType::TABLE_ENTRY && StringUtil::CIEquals(entry->schema, schema) &&
			    StringUtil::CIEquals(entry->Cast<CreateTableInfo>().table, name)) {
				return entry->Cast<CreateTableInfo>();
			}
		}
		return nullptr;
	};
	auto numbers = [](const CreateTableInfo &table, const vector<string> &names) {
		vector<PhysicalIndex> result;
		for (auto &name : names) {
			result.push_back(table.columns.GetColumn(name).Physical());
		}
		return result;
	};
	for (auto &entry : entries) {
		if (entry->type != CatalogType::TABLE_ENTRY) {
			continue;
		}
		auto &table = entry->Cast<CreateTableInfo>();
		for (auto &constraint : table.constraints) {
			if (constraint->type != ConstraintType::FOREIGN_KEY) {
				continue;
			}
			auto &key = constraint->Cast<ForeignKeyConstraint>();
			auto other = find(table.schema, key.info.table);
			if (other && other.get() != &table && key.info.pk_keys.empty()) {
				key.info.schema = table.schema;
				key.info.fk_keys = numbers(table, key.fk_columns);
				key.info.pk_keys = numbers(*other, key.pk_columns);
			}
		}
	}
}

static void PostBind(PlannerExtensionInput &input, BoundStatement &statement) {
	if (!statement.plan || statement.plan->type != LogicalOperatorType::LOGICAL_COPY_DATABASE) {
		return;
	}
	auto &info = *statement.plan->Cast<LogicalCopyDatabase>().info;
	auto &catalog = Catalog::GetCatalog(input.context, info.target_database);
	if (!OpenDuckCatalog::Is(catalog)) {
		ResolveForeignKeys(info.entries);
		return;
	}
	auto &target = catalog.Cast<OpenDuckCatalog>();
	target.RequireWritable("COPY DATABASE");
	auto sql = DefinitionsSql(target, std::move(info.entries));
	statement.plan = make_uniq<LogicalDefine>(target, std::move(sql), statement.types);
}

void RegisterCopyDatabase(DatabaseInstance &db) {
	PlannerExtension planner;
	planner.post_bind_function = PostBind;
	PlannerExtension::Register(DBConfig::GetConfig(db), std::move(planner));
}

} // namespace openduck
