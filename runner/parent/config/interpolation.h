#pragma once

#include <chrono>

#include "runner/parent/config/compose.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// What interpolations can read in addition to the document.
struct InterpolationSources {
  const RecipeKeys& schemas;
  Environment environment;
  std::chrono::system_clock::time_point now;
};

/// Returns `document` with every interpolation resolved:
///
///   ${a.b} ${a[0]} ${a[b]}   a key from the root; ${.x} is relative to the mapping or list that
///                            contains it, and ${..x} to the enclosing one
///   ${a.${b}}                the inner interpolation is resolved first
///   ${oc.env:NAME,default}   a resolver (resolvers.h); its arguments are parsed like the values of
///                            overrides
///   \${                      a literal ${
///
/// An interpolation that is the whole string keeps the type of its target, even a mapping or list.
/// Inside a longer string it becomes a string, and a container is an error. A missing key is read
/// from the schemas' defaults. References to `???` are `???`. ${item.x} and everything below
/// `aliases` stay unresolved. Values from an environment variable with the name of a secret get
/// Value::secret_as. Errors and warnings are added to `found`, at the locations of the
/// interpolations; an interpolation that fails becomes null. Runs in time linear in the size of the
/// document and the result.
Value resolve_interpolations(const Value& document, const InterpolationSources& sources,
                             Diagnostics& found);

/// The inverse of resolve_interpolations(): returns a document that resolves to `resolved`. Escapes
/// literal ${. Text that still contains ${item.x} is already escaped.
Value as_unresolved(Value resolved);

}  // namespace runner
