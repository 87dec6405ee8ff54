#include "runner/config/interpolation.h"

#include "runner/config/interpolation_pass.h"
#include "runner/config/interpolation_text.h"
#include "runner/config/merge.h"

namespace runner {

Value resolve_interpolations(const Value& document, const InterpolationSources& sources, Diagnostics& found) {
  return InterpolationPass(document, sources, found).resolve_all();
}

Value as_unresolved(Value resolved) {
  for_all(resolved, [](Value& part) {
    if (is_interpolation(part) && !holds_item(*part.text())) part.data = escaped(*part.text());
  });
  return resolved;
}

}  // namespace runner
