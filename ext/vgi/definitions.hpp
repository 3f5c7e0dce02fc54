//===----------------------------------------------------------------------===//
// vgi/definitions.hpp: views and macros, which a worker tells as SQL
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/schema.hpp"

namespace vgi {

//! Throws if the definition is no SELECT.
unique_ptr<CatalogEntry> MakeView(VgiSchemaEntry &schema, const od_vgi_view &view);
//! Throws if the definition is no expression, or no SELECT if it is a table macro.
unique_ptr<CatalogEntry> MakeMacro(ClientContext &context, VgiSchemaEntry &schema, const od_vgi_macro &macro);

} // namespace vgi
