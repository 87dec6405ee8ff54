#include "stages/read_ahead.h"

#include <algorithm>
#include <string>

#include "stages/meta_batch.h"

namespace stages {

void add_read_ahead(runner::MemoryPlan& plan, at::DeviceType device, const DatasetDescription& data,
                    const LoaderOptions& loader, std::int64_t units) {
  if (device != at::kCPU || loader.workers == 0 || units == 0) return;
  const std::int64_t others = std::max<std::int64_t>((data.size + units - 1) / units - 1, 0);
  const std::int64_t ahead = std::min(std::max<std::int64_t>(loader.prefetch, 1), others);
  const std::int64_t sample = sample_bytes(data), bytes = (ahead * units + loader.workers) * sample;
  plan.terms.push_back({"loader", bytes,
                        std::to_string(ahead) + " batches read ahead, and a sample for each of " +
                            std::to_string(loader.workers) + " workers"});
  plan.predicted += bytes;
}

}  // namespace stages
