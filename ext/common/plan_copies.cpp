#include "common/plan_copies.hpp"

namespace openduck {

void RefuseToWrite() {
	throw NotImplementedException("a plan with a function of an attached catalog cannot be written");
}

void RefuseCopies(TableFunction &function) {
	function.verify_serialization = false;
	function.serialize = [](Serializer &, const optional_ptr<FunctionData>, const TableFunction &) {
		RefuseToWrite();
	};
	function.deserialize = [](Deserializer &, TableFunction &) -> unique_ptr<FunctionData> {
		RefuseToWrite();
	};
}

} // namespace openduck
