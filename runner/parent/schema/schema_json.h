#pragma once

#include <string>
#include <string_view>

#include "runner/parent/schema/schema_reader.h"

namespace runner {

/// A schema parsed as JSON.
struct SchemaJson {
  SchemaReader::Json root;
  std::string problem;  ///< why the text is invalid; empty if it is valid
};

/// Parses the text of a schema; rejects duplicate keys. Optimized, since short commands spend most
/// of their time reading schemas.
SchemaJson read_schema_json(std::string_view text);

}  // namespace runner
