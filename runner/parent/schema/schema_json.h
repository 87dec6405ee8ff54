#pragma once

#include <string>
#include <string_view>

#include "runner/parent/schema/schema_reader.h"

namespace runner {

/// The text of a schema as JSON.
struct SchemaJson {
  SchemaReader::Json root;
  std::string problem;  ///< why it is none; empty: it is one
};

/// Refuses keys written twice. Reading schemas is most of what a short command takes, so this is
/// quick.
SchemaJson read_schema_json(std::string_view text);

}  // namespace runner
