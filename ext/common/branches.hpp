//===----------------------------------------------------------------------===//
// common/branches.hpp: a table that is read from several places: what stands in the plan before and after the optimizer
//===----------------------------------------------------------------------===//
#pragma once

#include "common/throw.hpp"

#include "duckdb/catalog/catalog_entry/table_catalog_entry.hpp"
#include "duckdb/function/table_function.hpp"
#include "duckdb/planner/binder.hpp"
#include "duckdb/planner/operator/logical_get.hpp"

namespace openduck {

//! What messages say of a table of branches.
struct BranchedName {
	string family; //!< "VGI", "OpenDuck"
	string schema, name;

	//! schema.name
	string Dotted() const {
		return schema + "." + name;
	}
	//! VGI table "schema"."name"
	string Quoted() const {
		return family + " table \"" + schema + "\".\"" + name + "\"";
	}
};

struct BranchColumn {
	string name;
	LogicalType type;
};

//! One branch's plan, which gives all of its columns under NAMES.
struct BoundArm {
	unique_ptr<LogicalOperator> plan;
	vector<string> names;
	vector<LogicalType> types;
	//! A function of the catalog's own.
	bool is_own_function = false;
};

//! A place in the plan: a table whose branches are to be read there.
class BranchesBindData : public TableFunctionData {
public:
	BranchesBindData(TableCatalogEntry &table, const string &family);

	TableCatalogEntry &table;
	const BranchedName shown;

	//! All columns that a query may ask for, the row id too if there is one.
	virtual const vector<BranchColumn> &Columns() const = 0;
	//! Where the table's column ID is among those.
	virtual idx_t ColumnIndex(column_t id) const = 0;
	virtual optional_idx EstimatedRows() const = 0;
	//! Loaded before anything is bound.
	virtual vector<string> RequiredExtensions() const = 0;
	//! At least one.
	virtual idx_t Count() const = 0;
	//! SQL over the columns of branch I, which its rows have to fulfil; false: all of them count.
	virtual bool Filter(idx_t i, string &out) const = 0;
	//! Binds what branch I reads; afterwards BINDER knows its columns.
	virtual BoundArm BindArm(ClientContext &context, Binder &binder, idx_t i) const = 0;
	//! ARM is all of the table. NAMES: by its columns, the table's column that comes of it as it is, or nothing.
	virtual void OnlyArmBound(BoundArm &arm, vector<string> names) const {
	}

	bool SupportStatementCache() const override {
		return false;
	}
};

//! The function NAME of such a place. It is never run: the optimizer puts the branches there.
TableFunction BranchesFunction(const string &name, const TableCatalogEntry &table);
//! Of this extension.
bool IsBranchesScan(const LogicalOperator &op);

//! Puts the branches in all such places of PLAN, which the optimizer has not seen.
void PlanBranches(ClientContext &context, Binder &binder, unique_ptr<LogicalOperator> &plan);

//! Binds a table of an attached catalog, as a statement binds it. SCHEMA may be empty: the catalog's default. Catalogs of the types
//! REFUSED may not be read, since their tables could name each other.
BoundArm BindTableArm(ClientContext &context, Binder &binder, const BranchedName &table, const string &catalog,
                      const string &schema, const string &name, const vector<string> &refused);
//! The parts of such a name as they are, with nothing refused.
BoundArm BindNamedArm(Binder &binder, const string &catalog, const string &schema, const string &name);
//! Binds files of FORMAT, read by DuckDB's function for it with OPTIONS.
BoundArm BindFormatArm(ClientContext &context, Binder &binder, const BranchedName &table, const string &format,
                       const vector<string> &locations, const vector<pair<string, Value>> &options);
//! Binds the table function NAME of DuckDB's or of an extension's. ARGUMENTS: the positional ones as "arg_N" or "positional_N".
BoundArm BindFunctionArm(ClientContext &context, Binder &binder, const BranchedName &table, const string &name,
                         const vector<pair<string, Value>> &arguments);
//! What an arm is called in its own binder.
extern const char *const ARM_ALIAS;

//! Argument NAME of a branch: its place among the positional ones, if it has one.
optional_idx ArgumentPosition(const string &name);

//! Binds the SQL text FILTER over the columns that BINDER knows. Throws a BinderException if it is more than an expression over
//! them: a subquery, an aggregate, or what has another value each time.
unique_ptr<Expression> BindBranchFilter(ClientContext &context, Binder &binder, const string &filter,
                                        const BranchedName &table);
//! FILTER as it is written; throws as BindBranchFilter does for what can be seen of it so.
unique_ptr<ParsedExpression> ParseBranchFilter(ClientContext &context, const string &filter, const BranchedName &table);

} // namespace openduck
