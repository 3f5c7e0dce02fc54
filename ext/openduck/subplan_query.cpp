//===----------------------------------------------------------------------===//
// openduck/subplan_query.cpp: queries with a name, and what they are read as
//===----------------------------------------------------------------------===//
#include "openduck/subplan.hpp"

#include "duckdb/planner/expression/list.hpp"

namespace openduck {

//===--------------------------------------------------------------------===//
// Queries with a name
//===--------------------------------------------------------------------===//
bool SubplanWriter::WriteMaterialized(LogicalMaterializedCTE &cte, SubplanBlock &block) {
	SubplanBlock definition;
	// Its column_count is from before DuckDB left out columns.
	if (!WriteOperator(*cte.children[0], definition) || !Restrict(*cte.children[0], definition)) {
		return false;
	}
	for (auto &column : definition.columns) {
		if (column.numbering) {
			return false;
		}
	}
	// Who wrote the query may have left it to DuckDB whether to put it in the place of its names. The server can tell; here it stays a CTE.
	auto name = Name(Select(definition), cte.materialize);
	ctes[cte.table_index] = make_pair(name, std::move(definition));
	return WriteOperator(*cte.children[1], block);
}

bool SubplanWriter::WriteReference(LogicalCTERef &reference, SubplanBlock &block) {
	auto found = ctes.find(reference.cte_index);
	if (found == ctes.end() || reference.is_recurring || reference.correlated_columns ||
	    found->second.second.columns.size() != reference.chunk_types.size()) {
		return false;
	}
	block = Named(found->second.first, found->second.second);
	for (idx_t i = 0; i < block.columns.size(); i++) {
		block.columns[i].binding = ColumnBinding(reference.table_index, i);
		if (block.columns[i].type != reference.chunk_types[i]) {
			return false;
		}
	}
	return true;
}

//! A query with a name of its own could not read the rows that recur: what needs one is not written.
bool SubplanWriter::WriteRecursive(LogicalRecursiveCTE &cte, SubplanBlock &block) {
	SubplanBlock first, next;
	if (!cte.key_targets.empty() || !cte.correlated_columns.empty() || !WriteOperator(*cte.children[0], first) ||
	    !Restrict(*cte.children[0], first) || first.columns.size() != cte.column_count) {
		return false;
	}
	for (idx_t i = 0; i < first.columns.size(); i++) {
		first.columns[i].binding = ColumnBinding(cte.table_index, i);
		// A union compares them.
		if (first.columns[i].compressed || first.columns[i].numbering ||
		    (!cte.union_all && TypeToSql(first.columns[i].type).empty())) {
			return false;
		}
	}
	auto name = "openduck_recursive_" + to_string(++aliases);
	auto before = named.size();
	ctes[cte.table_index] = make_pair(name, first);
	auto written = WriteOperator(*cte.children[1], next) && Restrict(*cte.children[1], next) &&
	               next.columns.size() == first.columns.size() && named.size() == before;
	ctes.erase(cte.table_index);
	if (!written) {
		return false;
	}
	for (idx_t i = 0; i < next.columns.size(); i++) {
		if (next.columns[i].compressed || next.columns[i].numbering || next.columns[i].type != first.columns[i].type) {
			return false;
		}
	}
	named.push_back(name + " AS (" + Select(first) + (cte.union_all ? " UNION ALL " : " UNION ") + Select(next) + ")");
	recursive = true;
	block = Named(name, first);
	return true;
}

//===--------------------------------------------------------------------===//
// Rows of no table
//===--------------------------------------------------------------------===//
bool SubplanWriter::WriteEmpty(LogicalEmptyResult &empty, SubplanBlock &block) {
	for (idx_t i = 0; i < empty.bindings.size(); i++) {
		auto type = TypeToSql(empty.return_types[i]);
		if (type.empty()) {
			return false;
		}
		block.columns.push_back({empty.bindings[i], empty.return_types[i], "CAST(NULL AS " + type + ")", false});
	}
	block.where = {"false"};
	Wrap(block);
	return true;
}

bool SubplanWriter::WriteUnnest(LogicalUnnest &unnest, SubplanBlock &block) {
	if (!WriteInput(*unnest.children[0], block)) {
		return false;
	}
	vector<SubplanColumn> columns;
	for (idx_t i = 0; i < unnest.expressions.size(); i++) {
		auto &list = *unnest.expressions[i]->Cast<BoundUnnestExpression>().child;
		SubplanColumn column {ColumnBinding(unnest.unnest_index, i), unnest.expressions[i]->return_type, string(),
		                      false};
		if (list.return_type.id() != LogicalTypeId::LIST || !WriteExpression(list, block, column.sql)) {
			return false;
		}
		column.sql = "unnest(" + column.sql + ")";
		columns.push_back(std::move(column));
	}
	block.columns.insert(block.columns.end(), columns.begin(), columns.end());
	Wrap(block);
	return true;
}

bool IsUnnest(const LogicalGet &get) {
	return get.function.name == "unnest" && get.function.in_out_function && get.children.size() == 1;
}

bool SubplanWriter::WriteUnnest(LogicalGet &unnest, SubplanBlock &block) {
	auto &child = *unnest.children[0];
	auto bindings = unnest.GetColumnBindings();
	if (!WriteInput(child, block) || !Restrict(child, block) || bindings.empty() ||
	    bindings.size() != unnest.projected_input.size() + 1 || block.columns.empty() ||
	    block.columns[0].type.id() != LogicalTypeId::LIST || block.columns[0].numbering) {
		return false;
	}
	// The list, and then columns to give along with what is in it.
	vector<SubplanColumn> columns;
	columns.push_back(
	    {bindings[0], ListType::GetChildType(block.columns[0].type), "unnest(" + block.columns[0].sql + ")", false});
	for (idx_t i = 0; i < unnest.projected_input.size(); i++) {
		columns.push_back(block.columns[unnest.projected_input[i]]);
		columns.back().binding = bindings[i + 1];
	}
	block.columns = std::move(columns);
	Wrap(block);
	return true;
}

//===--------------------------------------------------------------------===//
// Whole queries
//===--------------------------------------------------------------------===//
static string WithNamed(const vector<string> &named, bool recursive, const string &sql) {
	return named.empty() ? sql : (recursive ? "WITH RECURSIVE " : "WITH ") + StringUtil::Join(named, ", ") + " " + sql;
}

string SubplanWriter::Write(LogicalOperator &op, vector<RemoteColumn> &columns) {
	return WriteFirst(op, {}, 0, columns);
}

string SubplanWriter::WriteFirst(LogicalOperator &op, const vector<BoundOrderByNode> &orders, idx_t rows,
                                 vector<RemoteColumn> &columns) {
	SubplanBlock block;
	if (!WriteOperator(op, block)) {
		return string();
	}
	string order_sql;
	if (!orders.empty()) {
		Qualify(block);
		if (!WriteOrders(orders, block, order_sql)) {
			return string();
		}
		order_sql += " LIMIT " + to_string(rows);
	}
	if (!Restrict(op, block) || block.columns.empty()) {
		return string();
	}
	for (auto &column : block.columns) {
		if (column.compressed || column.numbering) {
			return string();
		}
		columns.push_back({"c" + to_string(columns.size()), column.type});
	}
	return WithNamed(named, recursive, Select(block) + order_sql);
}

} // namespace openduck
