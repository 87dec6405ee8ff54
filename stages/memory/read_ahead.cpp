#include "stages/memory/read_ahead.h"

#include <algorithm>
#include <string>

#include "stages/memory/meta_batch.h"

namespace stages {

void add_read_ahead(runner::MemoryPlan& plan, at::DeviceType device, const DatasetDescription& data,
                    const LoaderOptions& loader, std::int64_t units) {
  if (device != at::kCPU || loader.workers == 0 || units == 0) return;
  const std::int64_t all = loader.drop_last ? data.size - data.size % units : data.size;
  const std::int64_t behind_the_first = std::max<std::int64_t>(all - units, 0);
  const std::int64_t ahead = std::min(std::max<std::int64_t>(loader.prefetch, 1) * units, behind_the_first);
  const std::int64_t bytes = (ahead + loader.workers) * sample_bytes(data);
  plan.terms.push_back({"loader", bytes,
                        std::to_string(ahead) + " samples read ahead, and one for each of " +
                            std::to_string(loader.workers) + " workers"});
  plan.predicted += bytes;
}

}  // namespace stages
