#include "openduck/table.hpp"

#include "openduck/branches.hpp"
#include "openduck/catalog.hpp"
#include "openduck/remote_type.hpp"
#include "openduck/server_value.hpp"
#include "openduck/transaction.hpp"

#include "duckdb/parser/constraints/list.hpp"
#include "duckdb/parser/expression/cast_expression.hpp"
#include "duckdb/parser/expression/function_expression.hpp"
#include "duckdb/parser/keyword_helper.hpp"
#include "duckdb/parser/parsed_data/create_table_info.hpp"
#include "duckdb/parser/parsed_expression_iterator.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/statement/create_statement.hpp"
#include "duckdb/storage/statistics/base_statistics.hpp"

namespace openduck {

namespace {

//! The CREATE TABLE statement SQL, or null if this DuckDB cannot read it.
unique_ptr<CreateTableInfo> ParseCreateTable(const string &sql) {
	try {
		Parser parser;
		parser.ParseQuery(sql);
		if (parser.statements.size() == 1 && parser.statements[0]->type == StatementType::CREATE_STATEMENT) {
			auto &info = parser.statements[0]->Cast<CreateStatement>().info;
			if (info->type == CatalogType::TABLE_ENTRY) {
				return unique_ptr_cast<CreateInfo, CreateTableInfo>(std::move(info));
			}
		}
	} catch (std::exception &ex) {
		ErrorData error(ex); // NOLINT: an odd statement is not an error here
	}
	return nullptr;
}

unique_ptr<ParsedExpression> ParseExpression(const string &sql) {
	try {
		auto expressions = Parser::ParseExpressionList(sql);
		if (expressions.size() == 1) {
			return std::move(expressions[0]);
		}
	} catch (std::exception &ex) {
		ErrorData error(ex); // NOLINT: see above
	}
	return nullptr;
}

//! What the columns do not tell stands in the CREATE statement only.
bool NeedsStatement(const LoadedRelation &loaded) {
	for (auto word : {"PRIMARY KEY", "UNIQUE", "CHECK", "FOREIGN KEY", "COLLATE", "GENERATED"}) {
		if (loaded.sql.find(word) != string::npos) {
			return true;
		}
	}
	return false;
}

//! A constraint may only name columns that are there, else it is left out.
bool FitsColumns(const Constraint &constraint, const ColumnList &columns) {
	auto exists = [&](const vector<string> &names) {
		for (auto &name : names) {
			if (!columns.ColumnExists(name)) {
				return false;
			}
		}
		return true;
	};
	switch (constraint.type) {
	case ConstraintType::UNIQUE: {
		auto &unique = constraint.Cast<UniqueConstraint>();
		return unique.HasIndex() ? unique.GetIndex().index < columns.LogicalColumnCount()
		                         : exists(unique.GetColumnNames());
	}
	case ConstraintType::FOREIGN_KEY:
		return exists(constraint.Cast<ForeignKeyConstraint>().fk_columns);
	case ConstraintType::CHECK:
		return true;
	default:
		return false; // NOT NULL comes from the columns
	}
}

//! True if EXPRESSION names only functions and types that every DuckDB has.
bool IsKnownHere(ClientContext &context, ParsedExpression &expression) {
	if (expression.GetExpressionClass() == ExpressionClass::FUNCTION) {
		auto &catalog = Catalog::GetSystemCatalog(context);
		EntryLookupInfo lookup(CatalogType::SCALAR_FUNCTION_ENTRY, expression.Cast<FunctionExpression>().function_name);
		if (!catalog.GetEntry(context, DEFAULT_SCHEMA, lookup, OnEntryNotFound::RETURN_NULL)) {
			return false;
		}
	}
	if (expression.GetExpressionClass() == ExpressionClass::CAST) {
		try {
			BindRemoteType(context, expression.Cast<CastExpression>().cast_type);
		} catch (std::exception &ex) {
			ErrorData error(ex); // NOLINT: an unknown type
			return false;
		}
	}
	bool known = true;
	ParsedExpressionIterator::EnumerateChildren(
	    expression, [&](unique_ptr<ParsedExpression> &child) { known = known && IsKnownHere(context, *child); });
	return known;
}

//! How column NAME is computed; null if it is not, or if only the server can: then it is an ordinary one here.
unique_ptr<ParsedExpression> GeneratedExpression(ClientContext &context, CreateTableInfo &statement,
                                                 const string &name) {
	if (!statement.columns.ColumnExists(name) || !statement.columns.GetColumn(name).Generated()) {
		return nullptr;
	}
	auto result = statement.columns.GetColumn(name).GeneratedExpression().Copy();
	return IsKnownHere(context, *result) ? std::move(result) : nullptr;
}

void AddConstraints(ClientContext &context, CreateTableInfo &info, vector<unique_ptr<Constraint>> &constraints) {
	for (auto &constraint : constraints) {
		if (!FitsColumns(*constraint, info.columns)) {
			continue;
		}
		if (constraint->type == ConstraintType::CHECK) {
			auto &expression = constraint->Cast<CheckConstraint>().expression;
			if (!IsKnownHere(context, *expression)) {
				expression = ServerValue(*expression);
			}
		}
		if (constraint->type == ConstraintType::UNIQUE) {
			auto &unique = constraint->Cast<UniqueConstraint>();
			if (!unique.HasIndex() && unique.GetColumnNames().size() == 1 && unique.IsPrimaryKey()) {
				unique.SetIndex(info.columns.GetColumn(unique.GetColumnNames()[0]).Logical());
			}
		}
		if (constraint->type == ConstraintType::FOREIGN_KEY) {
			auto &key = constraint->Cast<ForeignKeyConstraint>().info;
			if (StringUtil::CIEquals(key.table, info.table)) {
				// Else DuckDB would wait for the table before it copies the table.
				key.type = ForeignKeyType::FK_TYPE_SELF_REFERENCE_TABLE;
			}
		}
		info.constraints.push_back(std::move(constraint));
	}
}

//! DuckDB puts a cast to the column's type around what a column is generated by; the server's text has it already.
void SetGenerated(ColumnDefinition &column, unique_ptr<ParsedExpression> expression) {
	if (expression->GetExpressionClass() == ExpressionClass::CAST) {
		expression = std::move(expression->Cast<CastExpression>().child);
	}
	column.SetGeneratedExpression(std::move(expression));
}

void AddKey(CreateTableInfo &info, const vector<string> &columns, bool primary) {
	if (columns.size() == 1) {
		auto &column = info.columns.GetColumn(columns[0]);
		info.constraints.push_back(make_uniq<UniqueConstraint>(column.Logical(), column.Name(), primary));
	} else if (!columns.empty()) {
		info.constraints.push_back(make_uniq<UniqueConstraint>(columns, primary));
	}
}

} // namespace

OpenDuckTableEntry::Parts OpenDuckTableEntry::Build(RemoteTypes &types, SchemaCatalogEntry &schema,
                                                    const LoadedRelation &loaded) {
	Parts parts;
	parts.info = make_uniq<CreateTableInfo>(schema, loaded.name);
	auto &info = *parts.info;
	info.temporary = loaded.temporary;
	info.internal = loaded.internal;
	info.comment = loaded.comment;
	info.tags = loaded.tags;

	unique_ptr<CreateTableInfo> statement;
	if (!loaded.is_view && !loaded.sql.empty() && NeedsStatement(loaded)) {
		statement = ParseCreateTable(loaded.sql);
	}
	vector<string> names;
	for (auto &column : loaded.columns) {
		names.push_back(column.name);
	}
	QueryResult::DeduplicateColumns(names);
	for (idx_t i = 0; i < loaded.columns.size(); i++) {
		auto &column = loaded.columns[i];
		LogicalType type;
		try {
			type = types.Parse(column.type);
			if (type.id() == LogicalTypeId::VARCHAR && !type.HasAlias()) {
				if (!column.collation.empty()) {
					type = LogicalType::VARCHAR_COLLATION(column.collation);
				} else if (statement && statement->columns.ColumnExists(column.name)) {
					type = BindRemoteType(types.context, statement->columns.GetColumn(column.name).Type());
				}
			}
		} catch (std::exception &ex) {
			// Shown by its name, and refused when it is read.
			type = LogicalType::VARCHAR;
			type.SetAlias(column.type.empty() ? "UNKNOWN" : column.type);
			parts.odd_columns[names[i]] = ErrorData(ex).RawMessage();
		}
		ColumnDefinition definition(names[i], type);
		auto generated = statement ? GeneratedExpression(types.context, *statement, column.name) : nullptr;
		if (generated) {
			definition = ColumnDefinition(names[i], type, std::move(generated), TableColumnType::GENERATED);
		}
		definition.SetComment(column.comment);
		if (!loaded.is_view && !definition.Generated() && !column.default_sql.IsNull()) {
			auto expression = ParseExpression(StringValue::Get(column.default_sql));
			auto generated = column.generated || (statement && statement->columns.ColumnExists(column.name) &&
			                                      statement->columns.GetColumn(column.name).Generated());
			if (expression && generated && IsKnownHere(types.context, *expression)) {
				SetGenerated(definition, std::move(expression));
			} else if (expression) {
				definition.SetDefaultValue(IsSameEverywhere(*expression) ? std::move(expression)
				                                                         : ServerValue(*expression));
			}
		}
		info.columns.AddColumn(std::move(definition));
	}

	if (statement) {
		AddConstraints(types.context, info, statement->constraints);
	} else {
		AddKey(info, loaded.primary_columns, true);
		for (auto &column : loaded.unique_columns) {
			AddKey(info, {column}, false);
		}
	}
	for (idx_t i = 0; i < loaded.columns.size(); i++) {
		if (!loaded.columns[i].nullable) {
			info.constraints.push_back(make_uniq<NotNullConstraint>(LogicalIndex(i)));
		}
	}
	return parts;
}

OpenDuckTableEntry::OpenDuckTableEntry(CatalogSnapshot &snapshot, SchemaCatalogEntry &schema, Parts parts,
                                       const LoadedRelation &loaded)
    : TableCatalogEntry(schema.ParentCatalog(), schema, *parts.info), snapshot(snapshot), sql(loaded.sql),
      full(loaded.full), is_view(loaded.is_view), odd_columns(std::move(parts.odd_columns)),
      estimated_size(loaded.estimated_size), index_count(loaded.index_count) {
	internal = loaded.internal;
	for (idx_t i = 0; i < loaded.columns.size() && i < columns.LogicalColumnCount(); i++) {
		auto &column = loaded.columns[i];
		auto &type = columns.GetColumn(LogicalIndex(i)).Type();
		figures.push_back(MakeColumnFigures(column.distinct_count, column.lowest, column.highest, type));
	}
}

unique_ptr<OpenDuckTableEntry> OpenDuckTableEntry::OfBranches(SchemaCatalogEntry &schema, const od_layout_table &table,
                                                              OpenDuckTableEntry &source) {
	LoadedRelation loaded;
	loaded.name = od_layout_table_name(&table.name);
	loaded.full = true;
	Parts parts;
	parts.info = make_uniq<CreateTableInfo>(schema, loaded.name);
	parts.info->comment = table.comment ? Value(table.comment) : source.comment;
	// Neither keys nor defaults: what holds in one branch need not hold in all.
	for (auto &column : source.columns.Logical()) {
		ColumnDefinition definition(column.Name(), column.Type());
		definition.SetComment(column.Comment());
		parts.info->columns.AddColumn(std::move(definition));
	}
	auto result = make_uniq<OpenDuckTableEntry>(source.snapshot, schema, std::move(parts), loaded);
	result->branches = &table;
	return result;
}

vector<RemoteColumn> OpenDuckTableEntry::RemoteColumns() const {
	vector<RemoteColumn> result;
	for (auto &column : columns.Logical()) {
		result.push_back({column.Name(), column.Type()});
	}
	return result;
}

string OpenDuckTableEntry::RemoteName() const {
	return KeywordHelper::WriteQuoted(snapshot.catalog.RemoteDatabase(), '"') + "." +
	       KeywordHelper::WriteQuoted(schema.name, '"') + "." + KeywordHelper::WriteQuoted(name, '"');
}

unique_ptr<CreateInfo> OpenDuckTableEntry::GetInfo() const {
	auto info = TableCatalogEntry::GetInfo();
	if (is_view || sql.empty()) {
		return info;
	}
	// Generated columns and the order of constraints are as the server has them.
	auto statement = ParseCreateTable(sql);
	if (!statement) {
		return info;
	}
	for (auto &column : columns.Logical()) {
		if (statement->columns.ColumnExists(column.Name())) {
			statement->columns.GetColumnMutable(column.Name()).SetType(column.Type());
		}
	}
	statement->catalog = info->catalog;
	statement->schema = info->schema;
	statement->temporary = info->temporary;
	statement->internal = info->internal;
	statement->comment = info->comment;
	statement->tags = info->tags;
	return std::move(statement);
}

string OpenDuckTableEntry::ToSQL() const {
	return sql.empty() ? TableCatalogEntry::ToSQL() : sql;
}

unique_ptr<BaseStatistics> OpenDuckTableEntry::GetStatistics(ClientContext &context, column_t column_id) {
	return nullptr;
}

TableFunction OpenDuckTableEntry::GetScanFunction(ClientContext &context, unique_ptr<FunctionData> &bind_data) {
	if (columns.empty()) {
		throw BinderException("cannot read \"%s\" of database \"%s\": the server names no columns of it", name,
		                      catalog.GetName());
	}
	for (auto &odd : odd_columns) {
		throw NotImplementedException(
		    "cannot read \"%s\" of database \"%s\": the type of its column \"%s\" is not known here (%s). "
		    "openduck_query('%s', ...) can select the other columns, or cast it",
		    name, catalog.GetName(), odd.first, odd.second, catalog.GetName());
	}
	if (branches) {
		return BindBranches(context, *this, bind_data);
	}
	RemoteScanSource source;
	source.remote = snapshot.catalog.SharedRemote();
	source.relation = RemoteName();
	source.columns = RemoteColumns();
	auto &transaction = OpenDuckTransaction::Get(context, catalog);
	source.SetTransaction(transaction);
	source.catalog_version = transaction.Rebinding() ? 0 : snapshot.version;
	source.estimated_rows = estimated_size;
	source.entry = this;
	bind_data = RemoteScanBind(std::move(source));
	return RemoteScanFunction();
}

TableStorageInfo OpenDuckTableEntry::GetStorageInfo(ClientContext &context) {
	TableStorageInfo result;
	result.cardinality = estimated_size;
	for (auto &constraint : constraints) {
		if (constraint->type != ConstraintType::UNIQUE) {
			continue;
		}
		auto &unique = constraint->Cast<UniqueConstraint>();
		IndexInfo index;
		index.is_unique = true;
		index.is_primary = unique.IsPrimaryKey();
		index.is_foreign = false;
		for (auto &column : unique.GetLogicalIndexes(columns)) {
			index.column_set.insert(columns.GetColumn(column).Physical().index);
		}
		result.index_info.push_back(std::move(index));
	}
	while (result.index_info.size() < index_count) {
		IndexInfo index;
		index.is_unique = false;
		index.is_primary = false;
		index.is_foreign = false;
		result.index_info.push_back(std::move(index));
	}
	return result;
}

virtual_column_map_t OpenDuckTableEntry::GetVirtualColumns() const {
	virtual_column_map_t result;
	if (branches) {
		return result;
	}
	result.insert(make_pair(COLUMN_IDENTIFIER_EMPTY, TableColumn("", LogicalType::BOOLEAN)));
	if (!is_view) {
		result.insert(make_pair(COLUMN_IDENTIFIER_ROW_ID, TableColumn("rowid", LogicalType::ROW_TYPE)));
	}
	return result;
}

vector<column_t> OpenDuckTableEntry::GetRowIdColumns() const {
	return branches ? vector<column_t>() : TableCatalogEntry::GetRowIdColumns();
}

void OpenDuckTableEntry::BindUpdateConstraints(Binder &binder, LogicalGet &get, LogicalProjection &proj,
                                               LogicalUpdate &update, ClientContext &context) {
	// The server checks them; here they may name what only it has.
}

} // namespace openduck
