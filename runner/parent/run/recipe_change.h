#pragma once

#include "runner/parent/schema/schema.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/value/value.h"

namespace runner {

/// What speaks against going on with the recipe `after` in a run that began with `before`, both
/// resolved: an error for every option that was changed and is refused, or needs `force` where that
/// is not given (x-resume in the schemas). A secret that the record does not hold may be given
/// again.
Diagnostics check_change(const Value& before, const Value& after, bool force,
                         const SchemaSet& schemas);

/// What speaks against evaluating by the recipe `after` what a run has trained by `before`, both
/// resolved: an error for every option of a model, a training or the seed that was changed. A
/// secret that the record does not hold may be given again.
Diagnostics check_change_of_trained(const Value& before, const Value& after);

}  // namespace runner
