#include "stages/tensor/parallel.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/from_blob.h>

namespace stages {

void parallel_for(std::int64_t count, std::int64_t grain,
                  c10::function_ref<void(std::int64_t begin, std::int64_t end)> work) {
  if (count <= 0) return;
  const std::int64_t parts =
      std::min<std::int64_t>(at::get_num_threads(), count / std::max<std::int64_t>(grain, 1));
  if (parts <= 1) return work(0, count);
  // An iterator over the part numbers; LibTorch divides it among its threads.
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(parts));
  std::iota(numbers.begin(), numbers.end(), 0);
  const at::Tensor places = at::from_blob(numbers.data(), {parts}, at::kLong);
  at::TensorIterator iterator = at::TensorIteratorConfig()
                                    .check_all_same_dtype(false)
                                    .resize_outputs(false)
                                    .add_output(places)
                                    .build();
  iterator.for_each(
      [&](char** data, const std::int64_t*, std::int64_t size) {
        const std::int64_t first = *reinterpret_cast<const std::int64_t*>(data[0]);
        work(count * first / parts, count * (first + size) / parts);
      },
      /*grain_size=*/1);
}

}  // namespace stages
