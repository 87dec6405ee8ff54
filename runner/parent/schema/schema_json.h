#pragma once

#include <string>
#include <string_view>

#include "runner/parent/schema/schema_reader.h"

namespace runner {

/// The text of a schema parsed as JSON.
struct SchemaJson {
  SchemaReader::Json root;
  std::string problem;  ///< why it is invalid; empty: it is valid
};

/// Rejects duplicate keys. Optimized, since short commands spend most of their time reading
/// schemas.
SchemaJson read_schema_json(std::string_view text);

}  // namespace runner
