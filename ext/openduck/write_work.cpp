#include "openduck/write_work.hpp"

#include "duckdb/execution/executor.hpp"
#include "duckdb/parallel/base_pipeline_event.hpp"
#include "duckdb/parallel/executor_task.hpp"
#include "duckdb/parallel/interrupt.hpp"

namespace openduck {

namespace {

//! How long the client waits before it looks for interrupts.
constexpr int64_t WAIT_MS = 50;

class WorkEvent : public BasePipelineEvent {
public:
	WorkEvent(Pipeline &pipeline, remote_step_t step) : BasePipelineEvent(pipeline), step(std::move(step)) {
	}
	void Schedule() override;

	remote_step_t step;

	//! The sleeper's end.
	mutex lock;
	bool done = false;
	bool asleep = false;
	InterruptState sleeper;
};

class WorkTask : public ExecutorTask {
public:
	WorkTask(Executor &executor, shared_ptr<Event> event_p, WorkEvent &work)
	    : ExecutorTask(executor, std::move(event_p)), work(work) {
	}

	TaskExecutionResult ExecuteTask(TaskExecutionMode mode) override {
		while (!work.step(WAIT_MS)) {
			if (mode == TaskExecutionMode::PROCESS_PARTIAL) {
				return TaskExecutionResult::TASK_NOT_FINISHED;
			}
		}
		Wake();
		event->FinishTask();
		return TaskExecutionResult::TASK_FINISHED;
	}
	string TaskType() const override {
		return "OpenDuckWorkTask";
	}

private:
	void Wake() {
		lock_guard<mutex> guard(work.lock);
		work.done = true;
		if (work.asleep) {
			work.sleeper.Callback();
		}
	}

	WorkEvent &work;
};

//! Is blocked until the work is done: a client without a task waits for one only if there is a blocked one.
class SleepTask : public ExecutorTask {
public:
	SleepTask(Executor &executor, shared_ptr<Event> event_p, WorkEvent &work)
	    : ExecutorTask(executor, std::move(event_p)), work(work) {
	}

	TaskExecutionResult ExecuteTask(TaskExecutionMode mode) override {
		lock_guard<mutex> guard(work.lock);
		if (work.done) {
			event->FinishTask();
			return TaskExecutionResult::TASK_FINISHED;
		}
		work.asleep = true;
		work.sleeper = InterruptState(shared_from_this());
		return TaskExecutionResult::TASK_BLOCKED;
	}
	string TaskType() const override {
		return "OpenDuckSleepTask";
	}

private:
	WorkEvent &work;
};

void WorkEvent::Schedule() {
	vector<shared_ptr<Task>> tasks;
	tasks.push_back(make_shared_ptr<WorkTask>(pipeline->executor, shared_from_this(), *this));
	tasks.push_back(make_shared_ptr<SleepTask>(pipeline->executor, shared_from_this(), *this));
	SetTasks(std::move(tasks));
}

} // namespace

void DoRemoteWork(Pipeline &pipeline, Event &event, remote_step_t step) {
	event.InsertEvent(make_shared_ptr<WorkEvent>(pipeline, std::move(step)));
}

} // namespace openduck
