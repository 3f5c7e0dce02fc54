//===----------------------------------------------------------------------===//
// openduck/subplan_block.cpp: the SELECT that a part of a plan becomes, and the expressions in it
//===----------------------------------------------------------------------===//
#include "openduck/subplan.hpp"

#include "duckdb/planner/expression/list.hpp"

namespace openduck {

//! A longer query is not worth sending.
static constexpr idx_t MAX_SQL = idx_t(1) << 20;

static string ColumnName(idx_t i) {
	return "c" + to_string(i);
}

optional_ptr<const SubplanColumn> SubplanBlock::Find(const ColumnBinding &binding) const {
	for (auto &column : columns) {
		if (column.binding == binding) {
			return column;
		}
	}
	return nullptr;
}

bool SubplanBlock::IsPlain() const {
	for (auto &column : columns) {
		if (!column.plain) {
			return false;
		}
	}
	return true;
}

//===--------------------------------------------------------------------===//
// Blocks
//===--------------------------------------------------------------------===//
string SubplanWriter::Select(const SubplanBlock &block, const string &list) {
	return "SELECT " + list + (block.from.empty() ? "" : " FROM " + block.from) +
	       (block.where.empty() ? "" : " WHERE " + StringUtil::Join(block.where, " AND ")) + block.tail;
}

string SubplanWriter::Select(const SubplanBlock &block, bool distinct) {
	string list;
	for (idx_t i = 0; i < block.columns.size(); i++) {
		list += (i ? ", " : "") + block.columns[i].sql + " AS " + ColumnName(i);
	}
	// What gives no columns gives rows.
	return Select(block, (distinct ? "DISTINCT " : "") + (list.empty() ? "1 AS c0" : list));
}

void SubplanWriter::Become(SubplanBlock &block, const string &sql) {
	auto alias = "t" + to_string(++aliases);
	block.from = "(" + sql + ") AS " + alias;
	block.where.clear();
	block.tail.clear();
	block.closed = false;
	for (idx_t i = 0; i < block.columns.size(); i++) {
		block.columns[i].sql = alias + "." + ColumnName(i);
		block.columns[i].plain = true;
	}
	block.qualified = true;
	block.single = true;
	block.appendable = true;
}

void SubplanWriter::Wrap(SubplanBlock &block) {
	Become(block, Select(block));
}

void SubplanWriter::Qualify(SubplanBlock &block) {
	if (!block.qualified) {
		Wrap(block);
	}
}

void SubplanWriter::MakeItem(SubplanBlock &block) {
	if (!block.single || !block.where.empty() || !block.IsPlain()) {
		Wrap(block);
	}
}

bool SubplanWriter::Restrict(LogicalOperator &op, SubplanBlock &block) {
	op.ResolveOperatorTypes();
	auto bindings = op.GetColumnBindings();
	if (bindings.size() != op.types.size()) {
		return false;
	}
	vector<SubplanColumn> columns;
	for (idx_t i = 0; i < bindings.size(); i++) {
		auto column = block.Find(bindings[i]);
		if (!column || column->type != op.types[i]) {
			return false;
		}
		columns.push_back(*column);
	}
	block.columns = std::move(columns);
	return block.from.size() < MAX_SQL;
}

string SubplanWriter::Name(const string &select, CTEMaterialize materialize) {
	auto name = "openduck_" + to_string(named.size() + 1);
	auto how = materialize == CTEMaterialize::CTE_MATERIALIZE_ALWAYS  ? " AS MATERIALIZED ("
	           : materialize == CTEMaterialize::CTE_MATERIALIZE_NEVER ? " AS NOT MATERIALIZED ("
	                                                                  : " AS (";
	named.push_back(name + how + select + ")");
	return name;
}

SubplanBlock SubplanWriter::Named(const string &name, const SubplanBlock &definition) {
	SubplanBlock result;
	auto alias = "t" + to_string(++aliases);
	result.from = name + " AS " + alias;
	result.qualified = true;
	result.single = true;
	for (idx_t i = 0; i < definition.columns.size(); i++) {
		auto column = definition.columns[i];
		column.sql = alias + "." + ColumnName(i);
		column.plain = true;
		result.columns.push_back(std::move(column));
	}
	return result;
}

bool SubplanWriter::Accept(const RemoteScanSource &scanned) {
	if (!source) {
		source = scanned;
		return true;
	}
	return source->remote == scanned.remote && source->catalog_version == scanned.catalog_version &&
	       source->SharesTransaction(scanned);
}

//===--------------------------------------------------------------------===//
// Expressions
//===--------------------------------------------------------------------===//
bool IsCompression(const Expression &expression, bool compress) {
	return expression.GetExpressionClass() == ExpressionClass::BOUND_FUNCTION &&
	       StringUtil::StartsWith(expression.Cast<BoundFunctionExpression>().function.name,
	                              compress ? "__internal_compress_" : "__internal_decompress_");
}

bool SubplanWriter::WriteProjected(const Expression &expression, const SubplanBlock &block, SubplanColumn &column) {
	if (expression.GetExpressionClass() == ExpressionClass::BOUND_COLUMN_REF) {
		auto named = block.Find(expression.Cast<BoundColumnRefExpression>().binding);
		if (named && named->numbering) {
			column.numbering = named->numbering;
			column.sql = named->sql;
			return named->type == expression.return_type;
		}
	}
	if (IsCompression(expression, true)) {
		column.compressed = true;
		return WriteExpression(*expression.Cast<BoundFunctionExpression>().children[0], block, column.sql);
	}
	if (IsCompression(expression, false)) {
		bool compressed = false;
		return WriteExpression(*expression.Cast<BoundFunctionExpression>().children[0], block, column.sql,
		                       &compressed) &&
		       compressed;
	}
	return WriteExpression(expression, block, column.sql, &column.compressed);
}

bool SubplanWriter::WriteExpression(const Expression &expression, const SubplanBlock &block, string &sql,
                                    bool *compressed) {
	auto named = expression.GetExpressionClass() == ExpressionClass::BOUND_COLUMN_REF
	                 ? block.Find(expression.Cast<BoundColumnRefExpression>().binding)
	                 : nullptr;
	if (named && named->compressed && compressed) {
		*compressed = true;
		sql = named->sql;
		return named->type == expression.return_type;
	}
	column_writer_t writer = [&block](const Expression &expr, string &out) {
		if (expr.GetExpressionClass() != ExpressionClass::BOUND_COLUMN_REF) {
			return false;
		}
		auto &ref = expr.Cast<BoundColumnRefExpression>();
		auto column = block.Find(ref.binding);
		if (ref.depth > 0 || !column || column->type != ref.return_type || column->compressed || column->numbering) {
			return false;
		}
		out = column->sql;
		return true;
	};
	return !expression.IsVolatile() && !expression.HasParameter() &&
	       ComputationToSql(expression, writer, sql, zero_divisor);
}

bool SubplanWriter::WriteOrders(const vector<BoundOrderByNode> &orders, const SubplanBlock &block, string &sql) {
	for (auto &order : orders) {
		string key;
		bool compressed = false;
		if (TypeToSql(order.expression->return_type).empty() ||
		    !WriteExpression(*order.expression, block, key, &compressed)) {
			return false;
		}
		sql += sql.empty() ? " ORDER BY " : ", ";
		sql += key + (order.type == OrderType::DESCENDING ? " DESC" : " ASC") +
		       (order.null_order == OrderByNullType::NULLS_FIRST ? " NULLS FIRST" : " NULLS LAST");
	}
	return true;
}

} // namespace openduck
