#pragma once

#include <chrono>

#include "runner/parent/config/compose.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// What interpolations read besides the document.
struct InterpolationSources {
  Declared declared;  ///< may be empty
  Environment environment;
  std::chrono::system_clock::time_point now;
};

/// `document` with every interpolation resolved:
///
///   ${a.b} ${a[0]} ${a[b]}   a key from the root; ${.x} from the mapping or list that holds it,
///   ${..x} one further out
///   ${a.${b}}                the inner one first
///   ${oc.env:NAME,default}   a resolver (resolvers.h); its arguments are read as the values of
///   overrides are
///   \${                      a literal ${
///
/// Alone it keeps the type of what it names, a mapping or list even; inside a longer text it
/// becomes text and a container is an error. A key that is not there is read from the schemas'
/// defaults. What refers to `???` is `???`.
/// ${item.x} stays as it is, and so does everything below `aliases`. Whatever comes from an
/// environment variable named like a secret has Value::secret_as set. All errors are added to
/// `found`, each where the interpolation is written, and so are warnings; the value of one that
/// failed is null. The time taken is linear in the document and its resolution.
Value resolve_interpolations(const Value& document, const InterpolationSources& sources,
                             Diagnostics& found);

/// A document that `resolved`, which resolve_interpolations() gave, is the resolution of: a literal
/// ${ is escaped. A text that still holds ${item.x} is written so already.
Value as_unresolved(Value resolved);

}  // namespace runner
