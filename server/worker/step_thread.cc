#include "server/worker/step_thread.h"

#include <utility>

namespace ferry {

StepThread::StepThread() : thread_([this] { loop(); }) {}

StepThread::~StepThread() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void StepThread::post(std::function<void()> task) {
  MutexLock lock(&mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void StepThread::run(const std::function<void()>& task) {
  bool done = false;
  post([&] {
    task();
    MutexLock lock(&mutex_);
    done = true;
    changed_.notify_all();
  });
  MutexLock lock(&mutex_);
  while (!done) changed_.wait(&mutex_);
}

void StepThread::loop() {
  while (true) {
    std::function<void()> task;
    {
      MutexLock lock(&mutex_);
      while (tasks_.empty() && !stopping_) changed_.wait(&mutex_);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace ferry
