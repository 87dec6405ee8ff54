#include "stages/tensor/module_names.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "stages/numerics/recomputable_module.h"

namespace stages {
namespace {

/// Records its path in forward().
class Speaking final : public PrecisionModule {
 public:
  std::string forward() const {
    const OwnPrecision own(*this);
    return running_path();
  }
};

class Family final : public PrecisionModule {
 public:
  Family() : child_(register_module("child", std::make_shared<Speaking>())) {}
  std::string forward() const {
    const OwnPrecision own(*this);
    return child_->forward() + " in " + running_path();
  }

 private:
  std::shared_ptr<Speaking> child_;
};

TEST(ModuleScope, ReportsTheInnermostModule) {
  const Family family;
  const ScopedModuleNames names(family, "model");
  EXPECT_EQ(family.forward(), "model.child in model");
  EXPECT_EQ(running_path(), "");
}

TEST(ModuleScope, PathIsEmptyWithoutNames) {
  const Family family;
  EXPECT_EQ(family.forward(), " in ");
}

TEST(ModuleScope, InnerNamesApply) {
  const Family family;
  const ScopedModuleNames names(family, "model");
  {
    const ScopedModuleNames other(family, "teacher");
    EXPECT_EQ(family.forward(), "teacher.child in teacher");
  }
  EXPECT_EQ(family.forward(), "model.child in model");
}

TEST(ModuleScope, UnnamedModuleHasNoPath) {
  const Family family, stranger;
  const ScopedModuleNames names(family, "model");
  EXPECT_EQ(stranger.forward(), " in ");
}

}  // namespace
}  // namespace stages
